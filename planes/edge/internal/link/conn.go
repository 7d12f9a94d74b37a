// Package link carries messages between hub and edges: websockets over mutual
// TLS that cost almost nothing while they rest. A connection at rest is a
// descriptor, two secrets and two counters; one goroutine reads thousands.
//
// It is no general websocket: text messages, no extension, no sub-protocol, as
// KubeEdge's is. What messages mean, package message knows.
package link

import (
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Handler is told what a connection brings. Its functions are called by one
// goroutine at a time.
type Handler interface {
	// Message brings a message, which is valid until it returns. An error ends the
	// connection.
	Message(raw []byte) error
	// Ended says that the connection has ended, and why.
	Ended(err error)
}

// Conn is a connection. Send may be called from many goroutines.
type Conn struct {
	socket  *socket
	tls     *records  // nil: crypto's, or plain
	crypto  *tls.Conn // TLS 1.2, or a cipher suite that records has not
	handler Handler
	in      assembler
	cipher  []byte // begin of a record
	early   []byte // came with the answer that opened the websocket
	writing sync.Mutex
	ended   sync.Once
	failed  atomic.Pointer[error] // of a write, for which the connection was closed
	bytes   *Bytes
}

// Bytes are what many connections have carried together. A sum of what each of 100,000
// counts for itself would walk over all of them whenever somebody asks.
type Bytes struct{ Sent, Received atomic.Uint64 }

// Close ends the connection; the handler is told by whoever reads it.
func (c *Conn) Close() error {
	c.socket.close()
	return nil
}

// Send sends one text message. It returns when the kernel has taken it; the error
// is ErrSlow where the peer does not read, and ends the connection.
func (c *Conn) Send(message []byte) error { return c.sendFrame(opText, message) }

// buffers are taken for the time of one write.
var buffers = sync.Pool{New: func() any { return new([2][]byte) }}

const keptBuffer = 64 << 10 // a larger one is not kept

func (c *Conn) sendFrame(op byte, payload []byte) error {
	b := buffers.Get().(*[2][]byte)
	defer func() {
		if cap(b[0]) <= keptBuffer && cap(b[1]) <= keptBuffer {
			buffers.Put(b)
		}
	}()
	var mask *[4]byte
	if c.in.client {
		word := rand.Uint32()
		mask = &[4]byte{byte(word), byte(word >> 8), byte(word >> 16), byte(word >> 24)}
	}
	b[0] = appendFrame(b[0][:0], op, payload, mask)
	c.writing.Lock()
	defer c.writing.Unlock()
	var err error
	switch {
	case c.tls != nil:
		if b[1], err = c.tls.out.sealRecords(b[1][:0], b[0], typeData); err == nil {
			err = c.writeLocked(b[1])
		}
	case c.crypto != nil:
		_, err = c.crypto.Write(b[0])
		c.bytes.Sent.Add(uint64(len(b[0])))
	default:
		err = c.writeLocked(b[0])
	}
	if err != nil {
		c.failed.CompareAndSwap(nil, &err)
		c.socket.close()
	}
	return err
}

func (c *Conn) writeLocked(b []byte) error {
	_, err := c.socket.Write(b)
	c.bytes.Sent.Add(uint64(len(b)))
	return err
}

// endWith closes the connection and tells the handler, once.
func (c *Conn) endWith(err error) {
	c.ended.Do(func() {
		if why := c.failed.Load(); why != nil && !errors.Is(*why, net.ErrClosed) {
			err = *why // what the reader sees is that it was closed for that
		}
		c.socket.close()
		c.handler.Ended(err)
	})
}

// readAll reads what there is to read now.
func (c *Conn) readAll(buffer []byte) error {
	if early := c.early; early != nil {
		c.early = nil
		if err := c.in.feedBytes(early, c.onFrame); err != nil {
			return err
		}
	}
	for {
		var n int
		var err error
		if c.crypto != nil {
			n, err = c.crypto.Read(buffer)
		} else {
			n, err = c.socket.Read(buffer)
		}
		c.bytes.Received.Add(uint64(n))
		if n > 0 {
			if err := c.onBytes(buffer[:n]); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, waitError{}):
			return nil
		case err != nil:
			return err
		}
	}
}

// onBytes takes bytes as they came.
func (c *Conn) onBytes(b []byte) error {
	if c.tls == nil {
		return c.in.feedBytes(b, c.onFrame)
	}
	if len(c.cipher) > 0 {
		b = append(c.cipher, b...)
	}
	rest, update, err := c.tls.openRecords(b, func(plain []byte) error { return c.in.feedBytes(plain, c.onFrame) })
	if err != nil {
		if errors.Is(err, errClosed) {
			return io.EOF
		}
		return err
	}
	c.cipher = nil
	if len(rest) > 0 {
		c.cipher = append([]byte(nil), rest...)
	}
	if update {
		return c.answerKeyUpdate()
	}
	return nil
}

// answerKeyUpdate answers a key update.
func (c *Conn) answerKeyUpdate() error {
	c.writing.Lock()
	defer c.writing.Unlock()
	b, err := c.tls.appendKeyUpdate(nil)
	if err == nil {
		err = c.writeLocked(b)
	}
	return err
}

func (c *Conn) onFrame(op byte, payload []byte) error {
	switch op {
	case opText:
		return c.handler.Message(payload)
	case opPing:
		return c.sendFrame(opPong, payload)
	case opClose:
		return io.EOF
	}
	return nil
}

// SetWriteTimeout says how long a peer may not read; 0: without end. It is called
// before the connection is used.
func (c *Conn) SetWriteTimeout(d time.Duration) { c.socket.writeBy = d }

// SetHandler says who is told; before the connection is read.
func (c *Conn) SetHandler(h Handler) { c.handler = h }
