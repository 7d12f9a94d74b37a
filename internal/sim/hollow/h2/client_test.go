package h2_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
)

// serve starts a server that speaks HTTP/2 by this package, and returns a client.
func serve(t *testing.T, handler http.Handler) (*http.Client, string) {
	t.Helper()
	s := h2.New(h2.Options{Handler: handler, Quick: quick, Clock: clock.Start()})
	web := httptest.NewUnstartedServer(handler)
	web.Listener = h2.Listener{Listener: web.Listener}
	web.EnableHTTP2 = true
	web.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": s.ServeTLS}
	web.StartTLS()
	t.Cleanup(func() {
		_ = s.Close()
		web.Close()
	})
	return web.Client(), web.URL
}

// What net/http's client sends and reads is the same by this server, whatever its
// length, in many requests at once.
func TestBodiesOfAnyLength(t *testing.T) {
	client, base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 || r.TLS == nil || r.Host == "" || r.RemoteAddr == "" {
			t.Errorf("%+v", r)
		}
		w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
		_, _ = io.Copy(w, r.Body)
	}))
	var wait sync.WaitGroup
	for i, n := range []int{0, 1, 1000, 16 << 10, 65536, 1 << 20, 5 << 20} {
		for _, path := range []string{"/", "/?quick"} {
			for _, known := range []bool{true, false} {
				wait.Go(func() {
					body := bytes.Repeat([]byte{byte(i)}, n)
					var in io.Reader = bytes.NewReader(body)
					if !known {
						in = io.MultiReader(in)
					}
					r, err := client.Post(base+path, "text/plain", in)
					if err != nil {
						t.Error(err)
						return
					}
					defer r.Body.Close()
					out, err := io.ReadAll(r.Body)
					if err != nil || !bytes.Equal(out, body) {
						t.Errorf("%s: %d of %d bytes came back, %v", path, len(out), n, err)
					}
					if got := r.Header.Get("X-Length"); known && n > 0 && got != strconv.Itoa(n) {
						t.Errorf("%s: a length of %s, want %d", path, got, n)
					}
				})
			}
		}
	}
	wait.Wait()
}

func TestAnswersHaveTheirHeader(t *testing.T) {
	client, base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Warning", "299 - a")
		w.Header().Add("Warning", "299 - b")
		w.Header().Set("Long", strings.Repeat("x", 40<<10))
		switch r.URL.Path {
		case "/none":
			w.WriteHeader(http.StatusNoContent)
			return
		case "/html":
			_, _ = io.WriteString(w, "<html>")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "{}")
	}))
	for _, q := range []string{"", "?quick"} {
		for _, c := range []struct {
			method, path, media, length string
			code                        int
		}{
			{"GET", "/", "application/json", "2", http.StatusTeapot},
			{"HEAD", "/", "application/json", "2", http.StatusTeapot},
			{"GET", "/html", "text/html; charset=utf-8", "6", http.StatusOK},
			{"GET", "/none", "", "", http.StatusNoContent},
		} {
			in := repotest.Must(http.NewRequestWithContext(t.Context(), c.method, base+c.path+q, nil))(t)
			r := repotest.Must(client.Do(in))(t)
			_ = r.Body.Close()
			h := r.Header
			if r.StatusCode != c.code || h.Get("Content-Type") != c.media || h.Get("Content-Length") != c.length || len(h.Values("Warning")) != 2 || len(h.Get("Long")) != 40<<10 || h.Get("Date") == "" {
				t.Errorf("%s %s%s: %d %.200v", c.method, c.path, q, r.StatusCode, h)
			}
		}
	}
}

// What is flushed comes at once, and a client that leaves ends its request.
func TestFlushedPiecesCome(t *testing.T) {
	next, ended := make(chan struct{}, 1), make(chan error, 1)
	client, base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for {
			select {
			case <-next:
				_, _ = io.WriteString(w, "piece")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				ended <- r.Context().Err()
				return
			}
		}
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	in := repotest.Must(http.NewRequestWithContext(ctx, http.MethodGet, base, nil))(t)
	next <- struct{}{}
	r := repotest.Must(client.Do(in))(t)
	defer r.Body.Close()
	for range 3 {
		piece := make([]byte, 5)
		if _, err := io.ReadFull(r.Body, piece); err != nil || string(piece) != "piece" {
			t.Fatalf("%q, %v", piece, err)
		}
		next <- struct{}{}
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("no error")
	}
}

func TestExpectation(t *testing.T) {
	client, base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	client.Transport.(*http.Transport).ExpectContinueTimeout = 1 << 40 // the server says that it wants the body
	in := repotest.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, base, strings.NewReader("body")))(t)
	in.Header.Set("Expect", "100-continue")
	r := repotest.Must(client.Do(in))(t)
	defer r.Body.Close()
	if out, err := io.ReadAll(r.Body); err != nil || string(out) != "body" {
		t.Errorf("%q, %v", out, err)
	}
}
