package wire_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/record"
)

// answering is a peer that answers every request with a list of header blocks, the
// last of which ends it.
func answering(t *testing.T, blocks ...[]hpack.HeaderField) func(net.Conn) {
	return func(n net.Conn) {
		_, _ = io.ReadFull(n, make([]byte, len(http2.ClientPreface)))
		f := http2.NewFramer(n, n)
		_ = f.WriteSettings()
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if _, ok := frame.(*http2.HeadersFrame); !ok {
				continue
			}
			for i, block := range blocks {
				b.Reset()
				for _, field := range block {
					if err := e.WriteField(field); err != nil {
						t.Error(err)
					}
				}
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.Header().StreamID, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: i == len(blocks)-1})
			}
		}
	}
}

// TestOnlyASuccessIsOK has peers that give no status, one that is no number, an
// interim one, and one that sends elsewhere.
func TestOnlyASuccessIsOK(t *testing.T) {
	status := func(code string) []hpack.HeaderField { return []hpack.HeaderField{{Name: ":status", Value: code}} }
	for _, tt := range []struct {
		name    string
		blocks  [][]hpack.HeaderField
		outcome record.Outcome
		err     error
	}{
		{"done", [][]hpack.HeaderField{status("201")}, record.OK, nil},
		{"an interim status before it", [][]hpack.HeaderField{status("103"), status("200")}, record.OK, nil},
		{"no status", [][]hpack.HeaderField{{{Name: "server", Value: "x"}}}, record.Unknown, wire.ErrNoStatus},
		{"no number", [][]hpack.HeaderField{status("fine")}, record.Unknown, wire.ErrNoStatus},
		{"an interim status alone", [][]hpack.HeaderField{status("103")}, record.Unknown, wire.ErrNoStatus},
		{"elsewhere", [][]hpack.HeaderField{status("302")}, record.Failed, nil},
		{"refused for years", [][]hpack.HeaderField{append(status("429"), hpack.HeaderField{Name: "retry-after", Value: "9999999999"})}, record.Failed, nil},
	} {
		c := client(t, spoken(t, answering(t, tt.blocks...)), 1)
		answer := make(chan wire.Response, 1)
		c.Send(&wire.Request{Method: "GET", Path: "/"}, func(r *wire.Response) { answer <- *r })
		r := <-answer
		if r.Outcome() != tt.outcome || !errors.Is(r.Err, tt.err) {
			t.Errorf("%s: outcome %v with status %d, %v", tt.name, r.Outcome(), r.Code, r.Err)
		}
		if r.Code == 429 && r.RetryAfter != time.Minute {
			t.Errorf("%s: retry after %v", tt.name, r.RetryAfter)
		}
	}
}
