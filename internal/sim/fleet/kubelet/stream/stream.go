// Package stream speaks the protocols that carry exec, attach and port-forward
// over one HTTP connection: SPDY/3.1 and WebSocket, in the versions that
// kube-apiserver and kubectl ask kubelets for.
//
// It runs nothing and connects nowhere: package kubelet does, with what a
// client's streams carry.
package stream

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/streaming/pkg/httpstream"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// Timing of connections.
const (
	idleTimeout   = time.Hour        // a connection on which nothing was heard
	createTimeout = 30 * time.Second // until a client has made the streams that it asked for
	lastWords     = time.Second      // for a client to read the end before the connection is closed
)

// The headers of SPDY streams.
const (
	typeHeader = "streamType"
	portHeader = "port"
	idHeader   = "requestID"
)

// errProtocol says that a client does not keep to the protocol.
var errProtocol = errors.New("stream protocol")

// offered is a stream that a client made.
type offered struct {
	httpstream.Stream
	replied <-chan struct{} // closed when the client was told that it has the stream
}

// newAcceptor takes a client's streams to a channel; what is more than the channel
// holds is refused.
func newAcceptor(to chan<- offered) httpstream.NewStreamHandler {
	return func(s httpstream.Stream, replied <-chan struct{}) error {
		select {
		case to <- offered{s, replied}:
		default:
			_ = s.Reset()
		}
		return nil
	}
}

// contextUntilGone returns a context that ends with ctx or when the client is gone; stop
// ends it and waits for the goroutine that looks out.
func contextUntilGone(ctx context.Context, gone <-chan bool) (whole context.Context, stop func()) {
	whole, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	guard.Go(func() {
		defer close(done)
		defer cancel()
		select {
		case <-gone:
		case <-whole.Done():
		}
	})
	return whole, func() {
		cancel()
		<-done
	}
}

// awaitReply waits until the client knows that it has the stream: what is sent to it
// before, it throws away.
func (o *offered) awaitReply(ctx context.Context) error {
	select {
	case <-o.replied:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// withoutLogger returns the request without a logger: the library would log each
// connection that ends.
func withoutLogger(r *http.Request) *http.Request {
	return r.WithContext(logr.NewContext(r.Context(), logr.Discard()))
}

// watched is an answer whose connection, once taken over, tells when it ends.
type watched struct {
	http.ResponseWriter
	end func()
}

// Hijack takes the connection over.
func (w *watched) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buf, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	early := make([]byte, buf.Reader.Buffered())
	if _, err := io.ReadFull(buf, early); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	c := &watchedConn{Conn: conn, early: early, end: w.end}
	return c, bufio.NewReadWriter(bufio.NewReader(c), bufio.NewWriter(c)), nil
}

type watchedConn struct {
	net.Conn
	early  []byte // what was read before the connection was taken over
	end    func()
	closed sync.Once
}

// Close tells the client that nothing follows and reads what it still sends, until
// it closes too or lastWords are over. Closed with input that nobody read, the
// kernel would reset the connection, and the client lose what it had not read yet.
func (c *watchedConn) Close() (err error) {
	c.closed.Do(func() {
		timer := time.AfterFunc(lastWords, func() { _ = c.Conn.Close() })
		if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, c.Conn) // the client's end, an error of its own or the timer's
		}
		if timer.Stop() {
			err = c.Conn.Close()
		}
	})
	return err
}

func (c *watchedConn) Read(p []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(p, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if err != nil {
		c.end()
	}
	return n, err
}

// offeredSubprotocols returns what a WebSocket client would speak, in its order.
func offeredSubprotocols(r *http.Request) []string {
	var out []string
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for _, p := range strings.Split(line, ",") {
			if p = strings.TrimSpace(p); p != "" {
				out = append(out, p)
			}
		}
	}
	return out
}
