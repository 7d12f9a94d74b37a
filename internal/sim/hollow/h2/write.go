package h2

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// writeLocked writes what waits, and what gathers meanwhile, unless somebody does so
// already. mu is free while it writes.
func (c *conn) writeLocked() {
	if c.writing {
		return
	}
	c.writing = true
	for len(c.out) > 0 {
		buf := c.out
		c.out = nil
		c.extendLocked()
		c.mu.Unlock()
		_, err := c.net.Write(buf)
		c.server.returnBuffer(buf)
		c.mu.Lock()
		if err != nil {
			c.breakLocked(fmt.Errorf("%w: %w", errLeft, err))
			c.out = nil
		}
		if c.waiting > 0 {
			c.room.Broadcast()
		}
	}
	c.writing = false
}

// extendLocked gives a write its time, and up to twice as much: deadlines cost more
// than most writes' records.
func (c *conn) extendLocked() {
	now := c.server.o.Clock.Now()
	if c.deadline.Sub(now) < c.stall {
		c.deadline = now.Add(2 * c.stall)
		_ = c.net.SetWriteDeadline(c.server.o.Clock.Wall(c.deadline))
	}
}

// awaitRoomLocked waits while too much waits to be written.
func (c *conn) awaitRoomLocked() {
	for len(c.out) >= outLimit && c.err == nil {
		if !c.writing {
			c.writeLocked()
			continue
		}
		c.waitLocked()
	}
}

func (c *conn) waitLocked() {
	c.waiting++
	c.room.Wait()
	c.waiting--
}

// pushLocked puts as much of an answer's body into frames as the windows let through
// and as there is room for. It returns the rest, and whether there is none.
func (c *conn) pushLocked(s *stream, p []byte, end bool) (rest []byte, all bool) {
	for len(p) > 0 || end {
		n := min(int64(len(p)), c.window, s.window, c.maxFrame)
		if n <= 0 && len(p) > 0 || len(c.out) >= outLimit {
			return p, false
		}
		var flags http2.Flags
		last := int(n) == len(p)
		if last && end {
			flags, end = http2.FlagDataEndStream, false
		}
		c.frameLocked(int(n), http2.FrameData, flags, s.id)
		c.out = append(c.out, p[:n]...)
		c.window -= n
		s.window -= n
		c.flood.returnUnits(gainedFrame)
		p = p[n:]
	}
	return nil, true
}

// sendLocked is pushLocked that waits until all has found room, and resets a stream
// whose client has let it wait too long. The rest of it is
// written with what comes next, or by writeLocked.
func (c *conn) sendLocked(s *stream, p []byte, end bool) error {
	for {
		if err := s.errLocked(); err != nil {
			return err
		}
		var all bool
		if p, all = c.pushLocked(s, p, end); all {
			return nil
		}
		if len(c.out) > 0 && !c.writing {
			c.writeLocked()
			continue
		}
		if s.dueLocked(&s.writeBy) {
			c.resetLocked(s, http2.ErrCodeInternal)
			c.writeLocked()
			return os.ErrDeadlineExceeded
		}
		c.waitLocked()
	}
}

// headersLocked puts the begin of an answer into frames.
func (c *conn) headersLocked(id uint32, code int, header http.Header, end bool) {
	c.block.Reset()
	c.fieldLocked(":status", statusText(code), false)
	for key, values := range header {
		name := lowerName(key)
		if name == "" {
			continue
		}
		for _, v := range values {
			// Lengths differ: they would only push the others out of the table.
			c.fieldLocked(name, v, name == "content-length")
		}
	}
	if code >= http.StatusOK && header["Date"] == nil {
		c.fieldLocked("date", c.server.dateHeader(), false)
	}
	kind, flags, block := http2.FrameHeaders, http2.Flags(0), c.block.Bytes()
	if end {
		flags = http2.FlagHeadersEndStream
	}
	for ; int64(len(block)) > defaultFrame; block = block[defaultFrame:] {
		c.frameLocked(defaultFrame, kind, flags, id)
		c.out = append(c.out, block[:defaultFrame]...)
		kind, flags = http2.FrameContinuation, 0
	}
	c.frameLocked(len(block), kind, flags|http2.FlagHeadersEndHeaders, id)
	c.flood.returnUnits(gainedFrame)
	c.out = append(c.out, block...)
}

func (c *conn) fieldLocked(name, value string, unindexed bool) {
	_ = c.encoder.WriteField(hpack.HeaderField{Name: name, Value: value, Sensitive: unindexed}) // into memory
}

// statusText returns a status as a header has it.
func statusText(code int) string {
	switch code {
	case http.StatusOK:
		return "200"
	case http.StatusCreated:
		return "201"
	}
	return strconv.Itoa(code)
}

// lowerName returns the name of a field as HTTP/2 has it, empty for one that it has not.
func lowerName(key string) string {
	switch key {
	case "Content-Type":
		return "content-type"
	case "Content-Length":
		return "content-length"
	case "Cache-Control":
		return "cache-control"
	case "Connection", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Keep-Alive":
		return ""
	}
	return strings.ToLower(key)
}
