package wire_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// useless are the peers of the corpus whose answers are answers, to a client that
// does not ask what they say.
var useless = map[string]bool{
	"an end at once": true, "not JSON": true, "JSON that is deep": true, "a list that leads to itself": true, "a list without end": true,
}

// TestHostilePeers sends requests to every peer of the corpus. Each ends, with an
// error or a refusal, over few connections, and so does a stream.
func TestHostilePeers(t *testing.T) {
	for _, p := range apitest.Peers() {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			served := p.Serve(t, false)
			c, err := wire.New(served.Endpoint, wire.Options{Connections: 2, Most: 20, Clock: clock.Start()})
			repotest.NoError(t, err)
			defer c.Close()
			const n = 20
			answers := make(chan wire.Response, n)
			for i := range n {
				req := &wire.Request{Method: "GET", Path: "/api/v1/pods", Timeout: time.Second}
				if i%2 == 1 {
					req.Method, req.Body, req.ContentType = "POST", bytes.Repeat([]byte("x"), 100), "application/json"
				}
				c.Send(req, func(r *wire.Response) { answers <- wire.Response{Code: r.Code, Err: r.Err} })
			}
			for range n {
				if r := <-answers; r.Err == nil && r.Success() && !useless[p.Name] {
					t.Errorf("status %d without an error", r.Code)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // a watch may be silent
			defer cancel()
			err = c.Stream(ctx, &wire.Request{Method: "GET", Path: "/api/v1/pods?watch=1", Timeout: time.Second}, enough())
			if err == nil && !useless[p.Name] {
				t.Error("a stream ended without an error")
			}
			if most, total := served.Connections(); most > 60 || total > 200 {
				t.Errorf("%d connections at a time, %d in all", most, total)
			}
		})
	}
}

// enough reads of a stream until it is longer than any event.
func enough() func([]byte) error {
	var read int
	begin := time.Now()
	return func(p []byte) error {
		if read += len(p); read > 1<<20 || time.Since(begin) > 2*time.Second {
			return errors.New("no event is that long")
		}
		return nil
	}
}

// TestLargeHeaders sends a header block larger than a frame to a server that takes
// none larger than the least that it must.
func TestLargeHeaders(t *testing.T) {
	path := "/api/v1/pods?labelSelector=" + strings.Repeat("x", 50_000)
	seen := make(chan string, 1)
	ep := spoken(t, func(n net.Conn) {
		_, _ = io.ReadFull(n, make([]byte, len(http2.ClientPreface)))
		f := http2.NewFramer(n, n)
		f.SetMaxReadFrameSize(16384)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		f.MaxHeaderListSize = 1 << 20
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				select {
				case seen <- err.Error():
				default:
				}
				return
			}
			if h, ok := frame.(*http2.MetaHeadersFrame); ok {
				seen <- fmt.Sprint(h.PseudoValue("path") == path, h.StreamEnded())
				return
			}
		}
	})
	client(t, ep, 1).Send(&wire.Request{Method: "GET", Path: path}, func(*wire.Response) {})
	if got := <-seen; got != "true true" {
		t.Errorf("the server saw %s", got)
	}
}

// TestConnectionsWithoutAnAnswerAreMadeSlowly counts the connections to a server
// that says GOAWAY to each request.
func TestConnectionsWithoutAnAnswerAreMadeSlowly(t *testing.T) {
	var dials atomic.Int64
	ep := spoken(t, func(n net.Conn) {
		dials.Add(1)
		_, _ = io.ReadFull(n, make([]byte, len(http2.ClientPreface)))
		f := http2.NewFramer(n, n)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FrameHeaders {
				_ = f.WriteGoAway(0, 0, nil)
			}
		}
	})
	c := client(t, ep, 1)
	begin := time.Now()
	_, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/", Timeout: time.Minute})
	if !errors.Is(err, wire.ErrNotSent) {
		t.Errorf("err = %v", err)
	}
	if n, took := dials.Load(), time.Since(begin); n < 2 || n > 5 || took < time.Second {
		t.Errorf("%d connections in %v", n, took)
	}
}

// TestPINGsAreFew sends PINGs to a client: some are answered, and of a flood of them
// fewer than 200 and as many for each second.
func TestPINGsAreFew(t *testing.T) {
	for name, pings := range map[string]int{"some": 100, "a flood": 20_000} {
		t.Run(name, func(t *testing.T) {
			replies := make(chan int, 1)
			ep := spoken(t, func(n net.Conn) {
				count := 0
				defer func() { replies <- count }()
				_, _ = io.ReadFull(n, make([]byte, len(http2.ClientPreface)))
				var flood bytes.Buffer
				f, all := http2.NewFramer(n, n), http2.NewFramer(&flood, nil)
				_ = all.WriteSettings()
				for range pings {
					_ = all.WritePing(false, [8]byte{})
				}
				for {
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					switch {
					case frame.Header().Type == http2.FrameHeaders:
						_, _ = n.Write(flood.Bytes())
					case frame.Header().Type == http2.FramePing && frame.Header().Flags.Has(http2.FlagPingAck):
						if count++; count == 100 && pings == 100 {
							_ = f.WriteRawFrame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, 1, []byte{0x88}) // status 200
						}
					}
				}
			})
			c, begin := client(t, ep, 1), time.Now()
			r, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/", Timeout: time.Minute})
			if pings == 100 {
				if err != nil || r.Code != 200 {
					t.Errorf("%v", err)
				}
				return
			}
			if !errors.Is(err, wire.ErrLost) || !strings.Contains(err.Error(), "floods the connection") {
				t.Errorf("err = %v", err)
			}
			if n := <-replies; n > 200+int(200*time.Since(begin).Seconds()) {
				t.Errorf("%d replies", n)
			}
		})
	}
}
