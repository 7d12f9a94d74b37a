package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// gate is a reader that reads nothing until it is opened, and then so much at a time.
type gate struct {
	open atomic.Bool
	size int
}

func (g *gate) read(now clock.Time, waiting int) (int, clock.Time) {
	if !g.open.Load() {
		return 0, now
	}
	return min(waiting, g.size), now
}

// endless writes until the server's side ends, and counts what it could write.
func endless(written *atomic.Int64) http.Handler {
	piece := bytes.Repeat([]byte("x"), 16<<10)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for {
			n, err := w.Write(piece)
			if err != nil {
				return
			}
			w.(http.Flusher).Flush()
			written.Add(int64(n))
		}
	})
}

// A reader that stalls lets the server send one window and no more; another stream of the
// connection goes on. When it reads again, so does the server send.
func TestStalledReaderFillsTheWindow(t *testing.T) {
	const window = 4 << 20
	var written atomic.Int64
	mux := http.NewServeMux()
	mux.Handle("/endless", endless(&written))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "here") })
	_, ep := serve(t, mux)
	c := client(t, ep, 1)
	g := &gate{size: 1 << 20}
	var got atomic.Int64
	ended := make(chan error, 1)
	c.Send(&wire.Request{
		Method: "GET", Path: "/endless", Hold: time.Hour, Read: g.read, Data: func(p []byte) { got.Add(int64(len(p))) },
	}, func(r *wire.Response) { ended <- r.Err })
	repotest.Eventually(t, "the window is full", func() bool { return c.Unread() == window })
	if r, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/"}); err != nil || string(r.Body) != "here" {
		t.Errorf("beside it: %v", err)
	}
	if n := c.Unread(); n != window || got.Load() != 0 {
		t.Errorf("%d bytes wait and %d were read, want %d and 0", n, got.Load(), window)
	}
	before := written.Load()
	g.open.Store(true)
	repotest.Eventually(t, "the server sends again", func() bool { return written.Load() > before+2*window && got.Load() > 2*window })
	c.CloseHeld(func(*wire.Request) bool { return true })
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := c.Unread(); n != 0 {
		t.Errorf("%d bytes of an ended watch wait", n)
	}
}

// A reader sees the end of an answer, whatever it is, when it has read all before it.
func TestSlowReaderSeesTheEndLast(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789"), 30_000)
	for name, end := range map[string]func(http.ResponseWriter, *wire.Client){
		"closed": func(http.ResponseWriter, *wire.Client) {},
		"reset":  func(http.ResponseWriter, *wire.Client) { panic(http.ErrAbortHandler) },
		"lost":   func(_ http.ResponseWriter, c *wire.Client) { c.Break() },
	} {
		t.Run(name, func(t *testing.T) {
			var c *wire.Client
			over := make(chan struct{})
			_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write(body)
				w.(http.Flusher).Flush()
				repotest.Eventually(t, "all has come", func() bool { return c.Unread() == len(body) })
				defer close(over)
				end(w, c)
			}))
			c = client(t, ep, 1)
			g := &gate{size: 7000}
			var got bytes.Buffer
			var done atomic.Bool
			ended := make(chan error, 1)
			c.Send(&wire.Request{Method: "GET", Path: "/", Hold: time.Hour, Read: g.read, Data: func(p []byte) { got.Write(p) }}, func(r *wire.Response) {
				done.Store(true)
				ended <- r.Err
			})
			<-over
			repotest.Eventually(t, "the stream is over", func() bool { return wire.Lingering(c) == 1 })
			if done.Load() || c.InFlight() != 1 {
				t.Errorf("told of the end before it was read: %v, %d in flight", done.Load(), c.InFlight())
			}
			g.open.Store(true)
			err := <-ended
			if !bytes.Equal(got.Bytes(), body) {
				t.Errorf("read %d bytes of %d", got.Len(), len(body))
			}
			if (err != nil) != (name != "closed") || err != nil && !errors.Is(err, wire.ErrLost) {
				t.Errorf("the end is %v", err)
			}
		})
	}
}

// A watch that has ended unread is given up when its time is over, when it is closed, and with
// its client.
func TestUnreadEndIsGivenUp(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "all") }))
	for name, x := range map[string]struct {
		hold time.Duration
		act  func(*wire.Client)
		want error
	}{
		"time":   {500 * time.Millisecond, func(*wire.Client) {}, nil},
		"closed": {time.Hour, func(c *wire.Client) { c.CloseHeld(func(*wire.Request) bool { return true }) }, nil},
		"client": {time.Hour, func(c *wire.Client) { _ = c.Close() }, wire.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			c := client(t, ep, 1)
			g := &gate{}
			ended := make(chan error, 1)
			c.Send(&wire.Request{Method: "GET", Path: "/", Hold: x.hold, Read: g.read, Data: func([]byte) {}}, func(r *wire.Response) { ended <- r.Err })
			repotest.Eventually(t, "the stream is over", func() bool { return wire.Lingering(c) == 1 || len(ended) == 1 })
			x.act(c)
			if err := <-ended; !errors.Is(err, x.want) || err != nil && x.want == nil {
				t.Errorf("the end is %v, want %v", err, x.want)
			}
		})
	}
}

// Clients end while their readers read.
func TestCloseWhileReading(t *testing.T) {
	var written atomic.Int64
	_, ep := serve(t, endless(&written))
	for range 20 {
		c := client(t, ep, 1)
		g := &gate{size: 10_000}
		g.open.Store(true)
		var wait sync.WaitGroup
		var over atomic.Bool
		var got atomic.Int64
		wait.Add(1)
		c.Send(&wire.Request{Method: "GET", Path: "/", Hold: time.Hour, Read: g.read, Data: func(p []byte) {
			if over.Load() {
				t.Error("read after the end")
			}
			got.Add(int64(len(p)))
		}}, func(*wire.Response) {
			over.Store(true)
			wait.Done()
		})
		repotest.Eventually(t, "something is read", func() bool { return got.Load() > 0 })
		_ = c.Close()
		wait.Wait()
	}
}
