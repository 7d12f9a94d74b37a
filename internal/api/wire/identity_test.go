package wire_test

import (
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestConnectionsTakeIdentitiesInTurn: a server that queues by user sees as many
// users as there are connections.
func TestConnectionsTakeIdentitiesInTurn(t *testing.T) {
	authority := repotest.Must(pki.NewAuthority("test", time.Now()))(t)
	var ids []endpoint.Identity
	for i := range 4 {
		pair := repotest.Must(authority.Issue(pki.Subject{Name: fmt.Sprintf("user-%d", i)}, time.Now()))(t)
		ids = append(ids, endpoint.Identity{Cert: pair.Cert, Key: pair.Key})
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		time.Sleep(20 * time.Millisecond) // long enough for the others to be needed
		mu.Lock()
		defer mu.Unlock()
		seen[r.TLS.PeerCertificates[0].Subject.CommonName] = true
	}))
	repotest.NoError(t, http2.ConfigureServer(s.Config, &http2.Server{MaxConcurrentStreams: 100}))
	s.TLS = s.Config.TLSConfig
	s.TLS.ClientAuth = tls.RequireAnyClientCert
	s.StartTLS()
	t.Cleanup(s.Close)
	c := client(t, endpoint.New(s.URL, pemOf(s), ids[0]).Many(ids[1:]), 4)
	c.Reserve(t.Context(), 400)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if r, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/"}); err != nil || r.Code != http.StatusOK {
				t.Errorf("%v, %v", r, err)
			}
		})
	}
	all.Wait()
	mu.Lock()
	defer mu.Unlock()
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, []string{"user-0", "user-1", "user-2", "user-3"}) {
		t.Errorf("the server saw %v", got)
	}
}

// TestRequestsSayWhoTheyAre: user, groups and user agent of a request win over the client's.
func TestRequestsSayWhoTheyAre(t *testing.T) {
	seen := make(chan http.Header, 1)
	_, ep := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header }))
	c := client(t, ep, 1)
	for _, one := range []*wire.Client{c, c.Another()} {
		for _, tt := range []struct {
			req  wire.Request
			want string
		}{
			{wire.Request{}, "[windtunnel] [] []"},
			{wire.Request{Impersonate: "a", Groups: []string{"g", "h"}, UserAgent: "agent/1"}, "[agent/1] [a] [g h]"},
			{wire.Request{Impersonate: "b"}, "[windtunnel] [b] []"},
		} {
			tt.req.Method, tt.req.Path = http.MethodGet, "/"
			if _, err := one.Do(t.Context(), &tt.req); err != nil {
				t.Fatal(err)
			}
			h := <-seen
			if got := fmt.Sprint(h["User-Agent"], h["Impersonate-User"], h["Impersonate-Group"]); got != tt.want {
				t.Errorf("the server saw %s, want %s", got, tt.want)
			}
		}
		t.Cleanup(func() { _ = one.Close() })
	}
}
