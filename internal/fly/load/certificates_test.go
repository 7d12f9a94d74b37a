package load_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestClientsWithCertificates: each client shows a certificate of its own, and impersonates
// nobody.
func TestClientsWithCertificates(t *testing.T) {
	authority := repotest.Must(pki.NewAuthority("test", time.Now()))(t)
	issue := func(user string, groups []string) (tls.Certificate, error) {
		pair, err := authority.Issue(pki.Subject{Name: user, Groups: groups}, time.Now())
		if err != nil {
			return tls.Certificate{}, err
		}
		return tls.X509KeyPair(pair.Cert, pair.Key)
	}
	var mu sync.Mutex
	seen := map[string]int{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		who := r.TLS.PeerCertificates[0].Subject
		seen[fmt.Sprint(who.CommonName, who.Organization, r.Header["Impersonate-User"], r.Header["User-Agent"])]++
	}))
	s.EnableHTTP2, s.TLS = true, &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	own := repotest.Must(authority.Issue(pki.Subject{Name: "own"}, time.Now()))(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	records := repotest.Must(record.Create(filepath.Join(t.TempDir(), "r.wt")))(t)
	o := load.Options{Endpoint: endpoint.New(s.URL, ca, endpoint.Identity{Cert: own.Cert, Key: own.Key}), Records: records, Clock: clock.Start(), Issue: issue}
	g := repotest.Must(load.New(o))(t)
	defer g.Close()

	p := load.Plan{Ops: []record.Op{op("get")}, Count: 6, Pace: pace.Burst(), Clients: agents(3, 3), Build: func(_ int, r *load.Request) (bool, error) {
		r.Method, r.Path = http.MethodGet, "/"
		return true, nil
	}}
	p.Clients.Certificates = true
	p.Clients.Identity = func(i int) load.Identity {
		return load.Identity{User: fmt.Sprint("agent-", i), Groups: []string{"agents"}, UserAgent: fmt.Sprint("agent/", i)}
	}
	repotest.NoError(t, g.Run(t.Context(), p))
	mu.Lock()
	for i := range 3 {
		if who := fmt.Sprintf("agent-%d[agents] [] [agent/%d]", i, i); seen[who] != 2 {
			t.Errorf("the server saw %v, want %s twice", seen, who)
		}
	}
	mu.Unlock()

	p.Clients.Connections = 2
	if err := g.Run(t.Context(), p); !errors.Is(err, load.ErrPlan) {
		t.Errorf("certificates of clients that share a connection: %v", err)
	}
	o.Issue, p.Clients.Connections = nil, 3
	other := repotest.Must(load.New(o))(t)
	defer other.Close()
	if err := other.Run(t.Context(), p); !errors.Is(err, load.ErrPlan) {
		t.Errorf("at a plane that issues none: %v", err)
	}
}
