package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// The body of a success goes to Data and is not kept; that of a refusal is kept.
func TestDataTakesTheBody(t *testing.T) {
	large := bytes.Repeat([]byte("0123456789"), 500_000)
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = w.Write(large)
	}))
	c := client(t, ep, 1)
	var got bytes.Buffer
	r, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/", Data: func(p []byte) { got.Write(p) }})
	if err != nil || !bytes.Equal(got.Bytes(), large) || len(r.Body) != 0 || r.ReceivedBytes != len(large) {
		t.Errorf("%v: %d bytes passed, %d kept", err, got.Len(), len(r.Body))
	}
	got.Reset()
	r, err = c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/no", Data: func(p []byte) { got.Write(p) }, Discard: true})
	if err != nil || got.Len() != 0 || len(r.Body) == 0 {
		t.Errorf("refused: %v: %d bytes passed, %d kept", err, got.Len(), len(r.Body))
	}
}

// Watches share connections, are held for their time, and are closed without an
// error. Those that cannot be opened in time end with one.
func TestHold(t *testing.T) {
	var closed atomic.Int64
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/mute" {
			fmt.Fprintln(w, "event")
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		closed.Add(1)
	}))
	c := repotest.Must(wire.New(ep, wire.Options{Most: 10, Clock: clock.Start()}))(t)
	defer c.Close()
	const n = 250
	var wait sync.WaitGroup
	var opened, bytes atomic.Int64
	wait.Add(n + 1)
	for range n {
		c.Send(&wire.Request{
			Method: "GET", Path: "/", Hold: 3 * time.Second,
			Opened: func(*wire.Response) { opened.Add(1) }, Data: func(p []byte) { bytes.Add(int64(len(p))) },
		}, func(r *wire.Response) {
			defer wait.Done()
			if r.Err != nil || r.Code != 200 {
				t.Errorf("%d, %v", r.Code, r.Err)
			}
		})
	}
	c.Send(&wire.Request{Method: "GET", Path: "/mute", Hold: time.Hour, Timeout: 300 * time.Millisecond}, func(r *wire.Response) {
		defer wait.Done()
		if !errors.Is(r.Err, wire.ErrTimeout) {
			t.Errorf("a watch that does not open: %v", r.Err)
		}
	})
	wait.Wait()
	if opened.Load() != n || bytes.Load() != n*int64(len("event\n")) {
		t.Errorf("%d opened, %d bytes", opened.Load(), bytes.Load())
	}
	repotest.Eventually(t, "the server sees all closed", func() bool { return closed.Load() == n+1 })
}

func TestCloseHeld(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	c := client(t, ep, 1)
	ended := make(chan string, 2)
	opened := make(chan struct{}, 2)
	for _, path := range []string{"/a", "/b"} {
		c.Send(&wire.Request{Method: "GET", Path: path, Hold: time.Hour, Opened: func(*wire.Response) { opened <- struct{}{} }}, func(r *wire.Response) {
			ended <- fmt.Sprint(path, r.Err)
		})
	}
	<-opened
	<-opened
	c.CloseHeld(func(r *wire.Request) bool { return r.Path == "/b" })
	if got := <-ended; got != "/b<nil>" {
		t.Errorf("ended %s", got)
	}
	if c.InFlight() != 1 {
		t.Errorf("%d are left", c.InFlight())
	}
}

// What is posted leaves with a flush.
func TestPostAndFlush(t *testing.T) {
	var served atomic.Int64
	_, ep := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
	c := client(t, ep, 2)
	if _, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/"}); err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	wait.Add(50)
	for range 50 {
		c.Post(&wire.Request{Method: "GET", Path: "/"}, func(r *wire.Response) {
			defer wait.Done()
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
	c.Flush()
	wait.Wait()
	if served.Load() != 51 {
		t.Errorf("%d served", served.Load())
	}
}

// stalled is a server that shakes hands and then reads nothing.
func stalled(t *testing.T) endpoint.Endpoint { return spoken(t, greet) }

// spoken is a server of which each connection is spoken by a function.
func spoken(t *testing.T, speak func(net.Conn)) endpoint.Endpoint {
	t.Helper()
	l, e := apitest.Listen(t)
	go func() {
		for {
			n, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = n.Close() })
			go speak(n)
		}
	}()
	return e
}

// greet takes everything that HTTP/2 allows to be sent, and reads none of it.
func greet(n net.Conn) {
	_, _ = io.ReadFull(n, make([]byte, len(http2.ClientPreface)))
	f := http2.NewFramer(n, n)
	_ = f.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 10_000}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 30})
	_ = f.WriteWindowUpdate(0, 1<<30)
}

// A server that stops reading holds nobody: whoever sends returns at once, the
// requests time out, and Close does not wait for the network.
func TestServerThatDoesNotRead(t *testing.T) {
	c := client(t, stalled(t), 1)
	const n = 500
	ended := make(chan error, n)
	body := []byte(strings.Repeat("x", 50_000)) // 25 MB in all: more than the network's buffers
	begin := time.Now()
	for range n {
		c.Post(&wire.Request{Method: "POST", Path: "/", Body: body, Timeout: 500 * time.Millisecond}, func(r *wire.Response) { ended <- r.Err })
		c.Flush()
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("sending took %v", took)
	}
	for range n {
		if err := <-ended; !errors.Is(err, wire.ErrTimeout) {
			t.Fatalf("err = %v, want a timeout", err)
		}
	}
	begin = time.Now()
	_ = c.Close()
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("closing took %v", took)
	}
}
