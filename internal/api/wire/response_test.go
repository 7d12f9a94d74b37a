package wire_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

func TestResponse(t *testing.T) {
	at := clock.Time(5 * time.Second)
	for _, c := range []struct {
		name      string
		response  wire.Response
		outcome   record.Outcome
		retriable bool
	}{
		{"done", wire.Response{Code: 201, Sent: at}, record.OK, false},
		{"no status", wire.Response{Sent: at}, record.Failed, false},
		{"sent elsewhere", wire.Response{Code: 302, Sent: at}, record.Failed, false},
		{"an interim one", wire.Response{Code: 103, Sent: at}, record.Failed, false},
		{"refused", wire.Response{Code: 404, Sent: at}, record.Failed, false},
		{"too many", wire.Response{Code: 429, Sent: at}, record.Failed, true},
		{"too late", wire.Response{Code: 408, Sent: at}, record.Failed, true},
		{"broken", wire.Response{Code: 503, Sent: at}, record.Failed, true},
		{"no answer", wire.Response{Err: wire.ErrTimeout, Sent: at}, record.Unknown, true},
		{"never left", wire.Response{Err: wire.ErrTimeout}, record.Failed, true},
		{"refused by the server before it was read", wire.Response{Err: fmt.Errorf("a: %w", wire.ErrNotSent), Sent: at}, record.Failed, true},
		{"torn", wire.Response{Err: errors.New("x"), Sent: at}, record.Unknown, true},
	} {
		if got := c.response.Outcome(); got != c.outcome {
			t.Errorf("%s: outcome %v, want %v", c.name, got, c.outcome)
		}
		if got := c.response.Retriable(); got != c.retriable {
			t.Errorf("%s: retriable %v", c.name, got)
		}
	}
	call := (&wire.Response{Err: wire.ErrTimeout, Done: 9, SentBytes: 3}).Call(7, 2)
	if call.Op != 7 || call.Due != 2 || call.Sent != 9 || call.Done != 9 || call.SentBytes != 3 {
		t.Errorf("%+v", call)
	}
}
