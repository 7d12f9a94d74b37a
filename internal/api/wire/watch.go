package wire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
)

// StatusError is an answer that is not what was asked for.
type StatusError struct {
	Code       int
	Body       []byte // usually a Status object; at most 4 KiB
	RetryAfter time.Duration
}

// Error says the code and what the body says: a Status its message.
func (e *StatusError) Error() string {
	return fmt.Sprintf("status %d: %s", e.Code, object.ReadStatus(e.Body).Message)
}

// Stream sends a request whose answer does not end by itself, such as a watch,
// on a connection of its own, and calls onData with the body as it comes: in
// order, in pieces of any size, valid only during the call. The request's Timeout,
// default a minute, bounds the time until a success begins. While onData runs
// nothing more is read, so a slow reader holds the server back and no other
// request. It returns nil when the server ended the answer, a *StatusError when
// it refused, onData's error (wrapped) when that was not nil, and ctx's error.
func (c *Client) Stream(ctx context.Context, req *Request, onData func([]byte) error) error {
	k, err := c.connect(ctx, -1)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	answer := make(chan Response, 1)
	s := newStream(req, func(r *Response) {
		out := *r
		out.Body = append([]byte(nil), r.Body[:min(len(r.Body), maxErrorBody)]...)
		answer <- out
	})
	begins := req.Timeout
	if begins <= 0 {
		begins = streamBegins
	}
	now := c.options.Clock.Now()
	s.solo, s.deadline = onData, now.Add(begins)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errors.Join(ErrClosed, k.net.Close())
	}
	c.wakeSweeperLocked(now)
	c.startLoopsLocked(k)
	k.openStreamLocked(s)
	k.wake()
	c.mu.Unlock()
	var r Response
	select {
	case r = <-answer:
	case <-ctx.Done():
	}
	c.mu.Lock()
	k.breakLocked(ErrClosed)
	c.mu.Unlock()
	if err := ctx.Err(); err != nil && r.Done == 0 {
		<-answer // so that onData does not run any more
		return err
	}
	if r.Err == nil && !r.Success() {
		return r.Refusal()
	}
	return r.Err
}
