package wire

import (
	"errors"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Success says that the answer is what was asked for: a status of 200 to 299. A
// redirection is none: nobody follows it, and what was asked for was not done.
func (r *Response) Success() bool { return r.Code >= 200 && r.Code < 300 }

// Outcome maps an answer to the three values (rule of measurement 2): what got
// no answer may have reached the server or not, unless it was never sent.
func (r *Response) Outcome() record.Outcome {
	switch {
	case r.Err == nil && r.Success():
		return record.OK
	case r.Err == nil, r.Sent == 0, errors.Is(r.Err, ErrNotSent):
		return record.Failed
	}
	return record.Unknown
}

// Retriable says that the same request may succeed later.
func (r *Response) Retriable() bool {
	return r.Err != nil || r.Code == http.StatusTooManyRequests || r.Code == http.StatusRequestTimeout || r.Code >= http.StatusInternalServerError
}

// Call is what the records keep of a request that was due then. One that never
// left spent all of its time waiting to: it counts as sent when it was given up.
func (r *Response) Call(op record.OpID, due clock.Time) record.Call {
	c := record.Call{
		Op: op, Due: due, Sent: r.Sent, Done: r.Done, Code: uint16(r.Code), Outcome: r.Outcome(),
		RetryAfter: r.RetryAfter, SentBytes: uint32(r.SentBytes), ReceivedBytes: uint32(r.ReceivedBytes),
	}
	if c.Sent == 0 {
		c.Sent = r.Done
	}
	return c
}
