package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
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
// order, in pieces of any size, valid only during the call. While onData runs
// nothing more is read, so a slow reader holds the server back and no other
// request. It returns nil when the server ended the answer, a *StatusError when
// it refused, onData's error (wrapped) when that was not nil, and ctx's error.
func (c *Client) Stream(ctx context.Context, req *Request, onData func([]byte) error) error {
	k, err := c.connect(ctx, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	answer := make(chan Response, 1)
	s := newStream(req, func(r *Response) {
		out := *r
		out.Body = append([]byte(nil), r.Body[:min(len(r.Body), maxErrorBody)]...)
		answer <- out
	})
	s.solo, s.deadline = onData, clock.Time(math.MaxInt64)
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return errors.Join(ErrClosed, k.net.Close())
	}
	c.begin(k)
	k.open(s)
	k.wake()
	c.mu.Unlock()
	var r Response
	select {
	case r = <-answer:
	case <-ctx.Done():
	}
	c.mu.Lock()
	k.broken(ErrClosed)
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
