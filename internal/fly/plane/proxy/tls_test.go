package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane/proxy"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// secure is a server with mutual TLS, and who may ask it.
type secure struct {
	address string
	roots   *x509.CertPool
	server  tls.Certificate
	client  tls.Certificate
	other   tls.Certificate // of the same authority
}

func pair(t testing.TB, a *pki.Authority, s pki.Subject) tls.Certificate {
	t.Helper()
	issued := repotest.Must(a.Issue(s, time.Now()))(t)
	return repotest.Must(tls.X509KeyPair(issued.Cert, issued.Key))(t)
}

func newSecure(t testing.TB, handler http.HandlerFunc) secure {
	t.Helper()
	a := repotest.Must(pki.NewAuthority("test", time.Now()))(t)
	s := secure{roots: x509.NewCertPool()}
	s.roots.AppendCertsFromPEM(a.PEM())
	s.server = pair(t, a, pki.Subject{Name: "server", IPs: []net.IP{net.IPv4(127, 0, 0, 1)}})
	s.client, s.other = pair(t, a, pki.Subject{Name: "client"}), pair(t, a, pki.Subject{Name: "other"})
	h := httptest.NewUnstartedServer(handler)
	h.EnableHTTP2 = true
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // strangers are turned away
	h.TLS = &tls.Config{Certificates: []tls.Certificate{s.server}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: s.roots, MinVersion: tls.VersionTLS12}
	h.StartTLS()
	t.Cleanup(h.Close)
	s.address = h.Listener.Addr().String()
	return s
}

// open are the options of a proxy that sees the calls.
func (s secure) open() proxy.Options {
	return proxy.Options{To: s.address, TLS: &proxy.TLS{Certificate: s.server, Clients: []tls.Certificate{s.client}, Roots: s.roots}}
}

// asker returns a client that comes with certificates, on one connection.
func (s secure) asker(t testing.TB, http2 bool, own ...tls.Certificate) *http.Client {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: http2, TLSClientConfig: &tls.Config{RootCAs: s.roots, Certificates: own, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}
}

func body(t testing.TB, c *http.Client, url string) string {
	t.Helper()
	resp := repotest.Must(c.Get(url))(t)
	defer resp.Body.Close()
	raw := repotest.Must(io.ReadAll(resp.Body))(t)
	return string(raw)
}

// who answers with the protocol and the client's name.
func who(w http.ResponseWriter, r *http.Request) {
	name := "nobody"
	if len(r.TLS.PeerCertificates) > 0 {
		name = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	fmt.Fprint(w, r.Proto, " ", name)
}

func TestServerSeesTheSameClient(t *testing.T) {
	s := newSecure(t, who)
	through := start(t, proxy.Options{To: s.address})
	opened := start(t, s.open())
	for _, r := range []*proxy.Proxy{through, opened} {
		for _, c := range []struct {
			http2 bool
			own   []tls.Certificate
			want  string
		}{
			{true, []tls.Certificate{s.client}, "HTTP/2.0 client"},
			{false, []tls.Certificate{s.client}, "HTTP/1.1 client"},
			{true, nil, "HTTP/2.0 nobody"},
		} {
			if got := body(t, s.asker(t, c.http2, c.own...), "https://"+r.Addr()); got != c.want {
				t.Errorf("opened %v: the server sees %q, want %q", r == opened, got, c.want)
			}
		}
	}
	if _, err := s.asker(t, true, s.other).Get("https://" + opened.Addr()); err == nil {
		t.Error("a client whose key the proxy does not have was passed on")
	}
}

func TestServerThatIsNotTrustedIsNotPassedOn(t *testing.T) {
	s, impostor := newSecure(t, who), newSecure(t, who)
	o := s.open()
	o.To = impostor.address
	if _, err := s.asker(t, true, s.client).Get("https://" + start(t, o).Addr()); err == nil {
		t.Error("the proxy trusts a server of another authority")
	}
}

// works answers after the milliseconds that the path names, in two parts.
func works(w http.ResponseWriter, r *http.Request) {
	var wait int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d", &wait); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	time.Sleep(time.Duration(wait) * time.Millisecond)
	fmt.Fprint(w, strings.Repeat("x", 10_000))
}

// Every call takes as much longer as the factor says, however many share the
// connection.
func TestAnswerFactorOfCallsThatOverlap(t *testing.T) {
	const factor = 1.5
	if ratios := overlapping(t, factor); ratios[0] < factor {
		t.Errorf("factor %v: a call takes %.2f times as long", factor, ratios[0])
	}
}

func TestProofAnswerFactorIsNotExceeded(t *testing.T) {
	repotest.Proof(t)
	for _, f := range []float64{1, 1.5} {
		// Above it is what calls wait for those answered before them.
		if ratios := overlapping(t, f); ratios[len(ratios)/2] > f+0.25 {
			t.Errorf("factor %v: half of the calls take over %.2f times as long", f, ratios[len(ratios)/2])
		}
	}
}

// overlapping returns how many times as long as its work each of some calls takes
// that share a connection, the least first.
func overlapping(t *testing.T, factor float64) []float64 {
	t.Helper()
	s := newSecure(t, works)
	r := start(t, s.open())
	c := s.asker(t, true, s.client)
	body(t, c, "https://"+r.Addr()+"/0")
	const calls = 40
	set(t, r, proxy.Link{AnswerFactor: factor})
	var all sync.WaitGroup
	ratios := make([]float64, calls)
	for i := range calls {
		all.Go(func() {
			time.Sleep(time.Duration(i) * 13 * time.Millisecond)
			works := 100 + i*37%50
			begin := time.Now()
			body(t, c, fmt.Sprintf("https://%s/%d", r.Addr(), works))
			ratios[i] = time.Since(begin).Seconds() / (float64(works) / 1000)
		})
	}
	all.Wait()
	slices.Sort(ratios)
	t.Logf("factor %v: %.3f, %.3f, %.3f", factor, ratios[0], ratios[calls/2], ratios[calls-1])
	if s := r.Stats(); s.Total != 1 {
		t.Errorf("not all calls shared a connection: %+v", s)
	}
	return ratios
}

// What comes unasked on a stream that was answered before is not held.
func TestEventsOfAWatchAreNotStretched(t *testing.T) {
	const age, factor = time.Second, 100 // a stretched event would come 99 s after it was sent
	s := newSecure(t, func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(age)
		_, _ = w.Write([]byte("event"))
	})
	r := start(t, s.open())
	set(t, r, proxy.Link{AnswerFactor: factor})
	ctx, cancel := context.WithTimeout(t.Context(), factor/2*age)
	defer cancel()
	req := repotest.Must(http.NewRequestWithContext(ctx, http.MethodGet, "https://"+r.Addr(), http.NoBody))(t)
	resp := repotest.Must(s.asker(t, true, s.client).Do(req))(t)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || string(raw) != "event" {
		t.Errorf("%q, %v", raw, err)
	}
}

// Big bodies pass unchanged through opened TLS, in both directions.
func TestBodiesPassThroughOpenedTLS(t *testing.T) {
	s := newSecure(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	r := start(t, s.open())
	set(t, r, proxy.Link{RoundTrip: 5 * time.Millisecond, AnswerFactor: 1.1})
	c := s.asker(t, true, s.client)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			want := strings.Repeat(fmt.Sprint(i, " "), 1<<19)
			resp, err := c.Post("https://"+r.Addr(), "text/plain", strings.NewReader(want))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); err != nil || string(got) != want {
				t.Errorf("%d bytes of %d: %v", len(got), len(want), err)
			}
		})
	}
	all.Wait()
}
