package h2

import (
	"context"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// stream is a request and its answer. Its fields are guarded by the connection's mu,
// but for request.
type stream struct {
	conn    *conn
	id      uint32
	request *http.Request
	cancel  context.CancelFunc // of the request's context; nil: that is the connection's
	window  int64              // how much the client takes
	closed  bool               // the answer has ended, or nobody wants it

	readBy, writeBy clock.Time  // until when it may wait for its client; 0: as long as Options.Timeout from now on
	alarm           *time.Timer // wakes who waits; nil: nobody has

	body     []byte    // that has come and was not read
	more     sync.Cond // more of it has come, or no more will
	taken    int64     // bytes of it that the client may send
	credit   int64     // bytes that were read since it was told of them
	received int64     // bytes that have come in all
	declared int64     // bytes that will; below 0: unknown
	ended    bool      // all has come
	expects  bool      // the client waits to be told that the body is wanted
}

// dispatchStream has the answer to a request made that has come whole.
func (c *conn) dispatchStream(s *stream) {
	if quick := c.server.o.Quick; quick == nil || !quick(s.request) {
		c.startHandler(s)
		return
	}
	c.mu.Lock()
	c.running++
	c.mu.Unlock()
	w := newResponse(s, true)
	w.finishAnswer(c.callHandler(w, s.request))
}

// startHandler gives a request a goroutine.
func (c *conn) startHandler(s *stream) {
	ctx, cancel := context.WithCancel(c.template.Context())
	c.mu.Lock()
	s.cancel = cancel
	if s.closed || c.err != nil { // it was reset before it began
		c.mu.Unlock()
		cancel()
		return
	}
	c.running++
	c.mu.Unlock()
	c.handlers.Go(func() {
		defer cancel()
		w := newResponse(s, false)
		w.finishAnswer(c.callHandler(w, s.request.WithContext(ctx)))
	})
}

// callHandler calls the handler; not done if it gave up.
func (c *conn) callHandler(w *response, r *http.Request) (done bool) {
	defer func() {
		if done {
			return
		}
		if why := recover(); why != nil && why != http.ErrAbortHandler { //nolint:errorlint // as net/http does
			c.server.o.ErrorLog.Printf("h2: panic serving %s: %v\n%s", r.RemoteAddr, why, debug.Stack())
		}
	}()
	c.server.o.Handler.ServeHTTP(w, r)
	return true
}

// closeLocked ends a stream whose answer has been given: nobody wants the rest of its
// request.
func (c *conn) closeLocked(s *stream) {
	if s.closed {
		return
	}
	if !s.ended {
		c.numberLocked(http2.FrameRSTStream, s.id, uint32(http2.ErrCodeNo))
	}
	c.dropLocked(s)
}

// resetLocked ends a stream for a reason.
func (c *conn) resetLocked(s *stream, code http2.ErrCode) {
	if !s.closed {
		c.numberLocked(http2.FrameRSTStream, s.id, uint32(code))
		c.dropLocked(s)
	}
}

// dropLocked forgets a stream. Its handler may go on, and hears of it.
func (c *conn) dropLocked(s *stream) {
	if s.closed {
		return
	}
	s.closed = true
	delete(c.streams, s.id)
	c.creditLocked(int64(len(s.body)))
	s.body = nil
	if s.alarm != nil {
		s.alarm.Stop()
	}
	s.more.Broadcast()
	if s.cancel != nil {
		s.cancel()
	}
	if c.waiting > 0 {
		c.room.Broadcast()
	}
}

// dueLocked says that a stream has waited for its client until a moment, or sees to it
// that whoever waits is woken then.
func (s *stream) dueLocked(by *clock.Time) bool {
	o := &s.conn.server.o
	now := o.Clock.Now()
	if *by == 0 {
		*by = now.Add(o.Timeout)
	}
	left := by.Sub(now)
	if left <= 0 {
		return true
	}
	if s.alarm == nil {
		s.alarm = time.AfterFunc(left, s.wakeWaiters)
	} else {
		s.alarm.Reset(left)
	}
	return false
}

// wakeWaiters has those look again who wait for the stream's client.
func (s *stream) wakeWaiters() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.more.Broadcast()
	s.conn.room.Broadcast()
}

// errLocked says why a stream cannot go on.
func (s *stream) errLocked() error {
	if s.conn.err != nil {
		return s.conn.err
	}
	if s.closed {
		return errReset
	}
	return nil
}

// body is a request's, as its handler reads it.
type body struct{ s *stream }

// Read waits for a piece of the body.
func (b body) Read(p []byte) (int, error) {
	s, c := b.s, b.s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(s.body) == 0 {
		if err := s.errLocked(); err != nil {
			return 0, err
		}
		if s.ended {
			return 0, io.EOF
		}
		if s.expects {
			s.expects = false
			c.headersLocked(s.id, http.StatusContinue, nil, false)
			c.writeLocked()
			continue
		}
		if s.dueLocked(&s.readBy) {
			return 0, os.ErrDeadlineExceeded
		}
		s.more.Wait()
	}
	n := copy(p, s.body)
	s.body = s.body[n:]
	c.creditLocked(int64(n))
	if s.credit += int64(n); s.credit >= streamWindow/4 && !s.ended {
		c.numberLocked(http2.FrameWindowUpdate, s.id, uint32(s.credit))
		s.taken += s.credit
		s.credit = 0
	}
	if s.cancel != nil {
		c.writeLocked() // the reader writes by itself
	}
	return n, nil
}

// Close says nothing to the client: the rest of the body is refused when the answer
// has been given.
func (body) Close() error { return nil }
