package h2

import (
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// heldBack is how much of a body is held back for what comes behind it.
const heldBack = 16 << 10

// response is how a handler answers. It is for one goroutine.
type response struct {
	stream *stream
	quick  bool // the reader waits for the handler: nothing may wait for a client's leave
	header http.Header
	code   int
	begun  bool   // the header has been sent
	body   []byte // that has been written and not sent
	wrote  int64  // bytes in all
}

func newResponse(s *stream, quick bool) *response {
	return &response{stream: s, quick: quick, header: make(http.Header, 4)}
}

// Header returns what the answer's header is to be.
func (w *response) Header() http.Header { return w.header }

// WriteHeader says what the answer's status is, once.
func (w *response) WriteHeader(code int) {
	if w.code == 0 && code >= http.StatusOK {
		w.code = code
	}
}

// hasNoBody says whether the answer has no body, whatever is written.
func (w *response) hasNoBody() bool {
	return w.stream.request.Method == http.MethodHead || w.code == http.StatusNoContent || w.code == http.StatusNotModified
}

// Write adds to the body. It waits while the client takes no more.
func (w *response) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.wrote += int64(len(p))
	if w.hasNoBody() {
		if w.stream.request.Method != http.MethodHead {
			return 0, http.ErrBodyNotAllowed
		}
		return len(p), nil
	}
	if w.quick || len(w.body)+len(p) <= heldBack {
		w.detectType(p)
		w.body = append(w.body, p...)
		return len(p), nil
	}
	w.detectType(p)
	c := w.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := w.flushLocked(); err != nil {
		return 0, err
	}
	if err := c.sendLocked(w.stream, p, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// detectType says what the body is if the handler has not.
func (w *response) detectType(p []byte) {
	if w.begun || len(w.body) > 0 || len(p) == 0 || w.header["Content-Type"] != nil || w.header["Content-Encoding"] != nil {
		return
	}
	w.header.Set("Content-Type", http.DetectContentType(p))
}

// SetReadDeadline says until when the body may be read.
func (w *response) SetReadDeadline(t time.Time) error {
	w.setDeadline(&w.stream.readBy, t)
	return nil
}

// SetWriteDeadline says until when the answer may wait for its client.
func (w *response) SetWriteDeadline(t time.Time) error {
	w.setDeadline(&w.stream.writeBy, t)
	return nil
}

func (w *response) setDeadline(by *clock.Time, t time.Time) {
	c := w.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	*by = 0 // as long as Options.Timeout from the next time on that it waits
	if !t.IsZero() {
		*by = c.server.o.Clock.At(t)
	}
}

// Flush sends what has been written.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError is Flush with its error.
func (w *response) FlushError() error {
	if w.quick {
		return nil
	}
	w.WriteHeader(http.StatusOK)
	c := w.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	err := w.flushLocked()
	c.writeLocked()
	return err
}

// flushLocked puts what has been written into frames.
func (w *response) flushLocked() error {
	s := w.stream
	if err := s.errLocked(); err != nil {
		return err
	}
	if !w.begun {
		w.begun = true
		s.conn.headersLocked(s.id, w.code, w.header, false)
	}
	body := w.body
	w.body = w.body[:0]
	return s.conn.sendLocked(s, body, false)
}

// finishAnswer ends the answer, or resets it if the handler gave up.
func (w *response) finishAnswer(done bool) {
	s, c := w.stream, w.stream.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.running-- }()
	switch {
	case s.errLocked() != nil:
		return
	case !done:
		c.resetLocked(s, http2.ErrCodeInternal)
	case w.endLocked():
		c.closeLocked(s)
	}
	if !w.quick || len(c.out) >= flushAt {
		c.writeLocked()
	}
	if w.quick {
		c.awaitRoomLocked()
	}
}

// endLocked puts the rest of the answer into frames; false if the stream did not last
// so long, or somebody else does it.
func (w *response) endLocked() bool {
	s, c := w.stream, w.stream.conn
	w.WriteHeader(http.StatusOK)
	if !w.begun {
		if !w.hasNoBody() || w.wrote > 0 {
			if w.header["Content-Length"] == nil {
				w.header["Content-Length"] = []string{strconv.FormatInt(w.wrote, 10)}
			}
		}
		c.headersLocked(s.id, w.code, w.header, len(w.body) == 0)
		if len(w.body) == 0 {
			return true
		}
	}
	if !w.quick {
		return c.sendLocked(s, w.body, true) == nil
	}
	rest, all := c.pushLocked(s, w.body, true)
	if !all {
		c.finishLater(s, rest)
	}
	return all
}

// finishLater sends the rest of an answer while the reader goes on.
func (c *conn) finishLater(s *stream, rest []byte) {
	c.running++
	c.handlers.Go(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.sendLocked(s, rest, true) == nil {
			c.closeLocked(s)
		}
		c.running--
		c.writeLocked()
	})
}
