package wire_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// serve starts an HTTP/2 server as an API server has one: TLS, 100 streams.
func serve(t testing.TB, h http.Handler) (*httptest.Server, endpoint.Endpoint) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	repotest.NoError(t, http2.ConfigureServer(s.Config, &http2.Server{MaxConcurrentStreams: 100}))
	s.TLS = s.Config.TLSConfig
	s.StartTLS()
	t.Cleanup(s.Close)
	return s, endpoint.New(s.URL, pemOf(s), endpoint.Identity{})
}

func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func client(t testing.TB, ep endpoint.Endpoint, connections int) *wire.Client {
	t.Helper()
	c := repotest.Must(wire.New(ep, wire.Options{Connections: connections, Clock: clock.Start()}))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("X-Method", r.Method)
	if r.URL.Query().Get("fail") != "" {
		w.Header().Set("Retry-After", "3")
		w.WriteHeader(http.StatusTooManyRequests)
	}
	fmt.Fprintf(w, "%s %s %s ", r.Method, r.URL.Path, r.Header.Get("Content-Type"))
	_, _ = w.Write(body)
}

func TestDo(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(echo))
	c := client(t, ep, 1)
	big := bytes.Repeat([]byte("0123456789"), 300_000) // larger than every window
	for _, tt := range []struct {
		req   wire.Request
		code  int
		body  string
		retry time.Duration
	}{
		{wire.Request{Method: "GET", Path: "/a"}, 200, "GET /a  ", 0},
		{wire.Request{Method: "POST", Path: "/b?x=1", Body: []byte("hello"), ContentType: "text/plain"}, 200, "POST /b text/plain hello", 0},
		{wire.Request{Method: "PUT", Path: "/c", Body: big, ContentType: "x/y"}, 200, "PUT /c x/y " + string(big), 0},
		{wire.Request{Method: "GET", Path: "/d?fail=1"}, 429, "GET /d  ", 3 * time.Second},
		{wire.Request{Method: "GET", Path: "/e?fail=1", Discard: true}, 429, "GET /e  ", 3 * time.Second},
		{wire.Request{Method: "GET", Path: "/f", Discard: true}, 200, "", 0},
	} {
		r, err := c.Do(t.Context(), &tt.req)
		if err != nil {
			t.Errorf("%s: %v", tt.req.Path, err)
			continue
		}
		if r.Code != tt.code || string(r.Body) != tt.body || r.RetryAfter != tt.retry {
			t.Errorf("%s: code %d, %d bytes, retry after %v", tt.req.Path, r.Code, len(r.Body), r.RetryAfter)
		}
		if r.Sent == 0 || r.Done < r.Sent {
			t.Errorf("%s: sent %v, done %v", tt.req.Path, r.Sent, r.Done)
		}
	}
}

// Many more requests than streams, over several connections: each gets its own
// answer, once.
func TestManyAtOnce(t *testing.T) {
	var most, now atomic.Int64
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer now.Add(-1)
		time.Sleep(time.Millisecond)
		echo(w, r)
	}))
	c := client(t, ep, 3)
	const n = 3000
	var wait sync.WaitGroup
	var wrong atomic.Int64
	for i := range n {
		wait.Add(1)
		body := []byte(strconv.Itoa(i))
		c.Send(&wire.Request{Method: "POST", Path: "/p", Body: body, ContentType: "t"}, func(r *wire.Response) {
			defer wait.Done()
			if r.Err != nil || string(r.Body) != "POST /p t "+string(body) {
				wrong.Add(1)
			}
		})
	}
	wait.Wait()
	if wrong.Load() > 0 || c.InFlight() != 0 {
		t.Errorf("%d wrong answers, %d in flight", wrong.Load(), c.InFlight())
	}
	if most.Load() > 300 {
		t.Errorf("%d requests at once with 3 connections of 100 streams", most.Load())
	}
}

func TestTimeoutIsUnknownAndFreesTheStream(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
	}))
	c := client(t, ep, 1)
	var wait sync.WaitGroup
	for range 150 { // more than the server's streams
		wait.Add(1)
		c.Send(&wire.Request{Method: "GET", Path: "/slow", Timeout: 200 * time.Millisecond}, func(r *wire.Response) {
			defer wait.Done()
			if !errors.Is(r.Err, wire.ErrTimeout) {
				t.Errorf("err = %v, want a timeout", r.Err)
			}
		})
	}
	if _, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/", Timeout: 5 * time.Second}); err != nil {
		t.Errorf("after the timeouts: %v", err)
	}
	wait.Wait()
}

// TestLateAnswerIsATimeout: an answer that came after its request's timeout is none, however
// long before the next sweep that was.
func TestLateAnswerIsATimeout(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusConflict)
		}
		_, _ = io.WriteString(w, "answer")
	}))
	c := client(t, ep, 1)
	for _, path := range []string{"/", "/refused", "/watch", "/data"} {
		for _, timeout := range []time.Duration{1, time.Microsecond, 10 * time.Microsecond} {
			req := &wire.Request{Method: "GET", Path: path, Timeout: timeout}
			switch path {
			case "/watch":
				req.Hold, req.Opened = time.Hour, func(*wire.Response) { t.Error("a watch opened after its timeout") }
			case "/data":
				req.Data = func([]byte) {}
			}
			begun := time.Now()
			r, err := c.Do(t.Context(), req)
			if !errors.Is(err, wire.ErrTimeout) || r.Outcome() == record.OK || r.Code != 0 || len(r.Body) > 0 {
				t.Errorf("%s, timeout %v: %d %q, %v after %v", path, timeout, r.Code, r.Body, err, time.Since(begun))
			}
		}
	}
	if r, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/", Timeout: time.Minute}); err != nil || string(r.Body) != "answer" {
		t.Errorf("in time: %v, %v", r, err)
	}
}

// TestSweepsRest holds that a client at which nothing happens looks at itself once a
// second, and one with something under way in time for it.
func TestSweepsRest(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	c := client(t, ep, 1)
	repotest.Eventually(t, "an idle one rests", func() bool { return c.Sweep() == time.Second })
	const timeout = 700 * time.Millisecond
	ended, begun := make(chan error, 1), time.Now()
	c.Send(&wire.Request{Method: "GET", Path: "/", Timeout: timeout}, func(r *wire.Response) { ended <- r.Err })
	for range 3 {
		if wait := c.Sweep(); wait > timeout && time.Since(begun) < timeout {
			t.Errorf("the next sweep is in %v, after the deadline", wait)
		}
	}
	if err := <-ended; !errors.Is(err, wire.ErrTimeout) {
		t.Error(err)
	}
	repotest.Eventually(t, "it rests again", func() bool { return c.Sweep() == time.Second })
}

func TestServerGone(t *testing.T) {
	asked := make(chan bool)
	var requests atomic.Int64
	s, ep := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
		close(asked)
		<-r.Context().Done()
	}))
	c := client(t, ep, 2)
	lost := make(chan error, 1)
	c.Send(&wire.Request{Method: "GET", Path: "/"}, func(r *wire.Response) { lost <- r.Err })
	<-asked
	s.CloseClientConnections()
	if err := <-lost; !errors.Is(err, wire.ErrLost) {
		t.Errorf("err = %v, want ErrLost", err)
	}
	s.Listener.Close()
	// A connection that was on its way while the others and the listener closed is lost first.
	_, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/"})
	for n := 0; n < 20 && errors.Is(err, wire.ErrLost); n++ {
		s.CloseClientConnections()
		_, err = c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/"})
	}
	if !errors.Is(err, wire.ErrNotSent) {
		t.Errorf("err = %v, want ErrNotSent", err)
	}
	go s.Config.Close()
}

func TestGracefulShutdownLosesNothing(t *testing.T) {
	var served atomic.Int64
	s, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if served.Add(1)%50 == 0 {
			w.Header().Set("Connection", "close") // HTTP/2: GOAWAY after this answer
		}
	}))
	_ = s
	c := client(t, ep, 2)
	var wait sync.WaitGroup
	var failed atomic.Int64
	var last atomic.Value
	for range 1000 {
		wait.Add(1)
		c.Send(&wire.Request{Method: "GET", Path: "/"}, func(r *wire.Response) {
			defer wait.Done()
			if r.Err != nil || r.Code != 200 {
				failed.Add(1)
				last.Store(fmt.Sprint(r.Code, r.Err))
			}
		})
	}
	wait.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of 1000 failed across GOAWAYs, such as %v", failed.Load(), last.Load())
	}
}

func TestStream(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			http.Error(w, "too old", http.StatusGone)
			return
		}
		for i := range 5 {
			fmt.Fprintf(w, "event %d\n", i)
			w.(http.Flusher).Flush()
		}
		if r.URL.Path == "/open" {
			<-r.Context().Done()
		}
	}))
	c := client(t, ep, 1)
	var got bytes.Buffer
	take := func(p []byte) error { got.Write(p); return nil }
	if err := c.Stream(t.Context(), &wire.Request{Method: "GET", Path: "/whole"}, take); err != nil {
		t.Errorf("whole: %v", err)
	}
	if want := "event 0\nevent 1\nevent 2\nevent 3\nevent 4\n"; got.String() != want {
		t.Errorf("got %q", got.String())
	}
	var status *wire.StatusError
	if err := c.Stream(t.Context(), &wire.Request{Method: "GET", Path: "/gone"}, take); !errors.As(err, &status) || status.Code != 410 {
		t.Errorf("gone: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := c.Stream(ctx, &wire.Request{Method: "GET", Path: "/open"}, take); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("open: %v", err)
	}
	stop := errors.New("enough")
	if err := c.Stream(t.Context(), &wire.Request{Method: "GET", Path: "/open"}, func([]byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("stopped: %v", err)
	}
}

// TestSweepsWhileAStreamBegins: a sweep lets alone what the read loop writes without
// the lock. It is the race detector's.
func TestSweepsWhileAStreamBegins(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 500 {
			w.WriteHeader(http.StatusEarlyHints)
		}
		_, _ = io.WriteString(w, "event")
	}))
	c := client(t, ep, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- c.Stream(t.Context(), &wire.Request{Method: "GET", Path: "/"}, func([]byte) error { return nil })
	}()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return
		default:
			c.Sweep()
		}
	}
}

func TestCloseEndsEverything(t *testing.T) {
	_, ep := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	c := client(t, ep, 1)
	ended := make(chan error, 200)
	for range 200 {
		c.Send(&wire.Request{Method: "GET", Path: "/"}, func(r *wire.Response) { ended <- r.Err })
	}
	repotest.NoError(t, c.Close())
	for range 200 {
		if err := <-ended; !errors.Is(err, wire.ErrClosed) {
			t.Fatalf("err = %v, want ErrClosed", err)
		}
	}
	if _, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/"}); !errors.Is(err, wire.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// BenchmarkSend counts both sides' CPU: client and server share the process.
func BenchmarkSend(b *testing.B) {
	_, ep := serve(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusCreated)
	}))
	c := client(b, ep, 2)
	body := make([]byte, 700)
	room := make(chan struct{}, 64)
	req := &wire.Request{Method: "POST", Path: "/api/v1/namespaces/n/configmaps", Body: body, ContentType: "x", Discard: true}
	b.ReportAllocs()
	for b.Loop() {
		room <- struct{}{}
		c.Send(req, func(*wire.Response) { <-room })
	}
	for range cap(room) {
		room <- struct{}{}
	}
}
