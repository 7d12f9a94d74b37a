package trust_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"crypto/tls"
	"crypto/x509"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/trust"
)

func moment() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

func authority(t *testing.T) *trust.Authority {
	t.Helper()
	return repotest.Must(trust.NewAuthority(moment()))(t)
}

func TestTokens(t *testing.T) {
	a := authority(t)
	jwt := func(token string) string { _, s, _ := strings.Cut(token, "."); return s }
	good := jwt(a.Token(moment().Add(trust.TokenLasts)))
	for _, c := range []struct {
		name, jwt, want string
	}{
		{"good", good, ""},
		{"expired", jwt(a.Token(moment())), "expired at 2030-01-02"},
		{"another's", jwt(authority(t).Token(moment().Add(time.Hour))), "signed by somebody else"},
		{"none", "", "no JWT"},
		{"unsigned", good[:strings.LastIndexByte(good, '.')+1], "signed by somebody else"},
		{"another algorithm", "eyJhbGciOiJub25lIn0" + good[strings.IndexByte(good, '.'):], "no JWT of HS256"},
	} {
		err := a.Check(c.jwt, moment())
		if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, trust.ErrToken) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// TestEnrolment holds that an edge gets a certificate by token and by the one it
// has, that it knows a false hub, and what is refused.
func TestEnrolment(t *testing.T) {
	a, counts := authority(t), map[int]int{}
	hub := httptest.NewUnstartedServer(a.Handler(moment, func(_ string, code int) { counts[code]++ }))
	hub.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	hub.StartTLS()
	defer hub.Close()
	e := &trust.Enroller{Client: trust.Unverified(), Base: hub.URL, Token: a.Token(moment().Add(time.Hour))}
	pool := repotest.Must(e.Authority(t.Context()))(t)
	c := repotest.Must(e.Certificate(t.Context(), "edge-7"))(t)
	leaf := repotest.Must(x509.ParseCertificate(c.Certificate[0]))(t)
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: moment(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if leaf.Subject.CommonName != "system:node:edge-7" || leaf.Subject.Organization[0] != "system:nodes" {
		t.Errorf("certificate of %s", leaf.Subject)
	}
	renewing := trust.Unverified()
	renewing.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{c}
	renew := &trust.Enroller{Client: renewing, Base: hub.URL}
	if _, err := renew.Certificate(t.Context(), "edge-7"); err != nil {
		t.Error(err)
	}
	if _, err := renew.Certificate(t.Context(), "edge-8"); err == nil || !strings.Contains(err.Error(), "not of node edge-8") {
		t.Errorf("another node's: %v", err)
	}
	e.Token = trust.Fingerprint(nil) + ".x"
	if _, err := e.Authority(t.Context()); !errors.Is(err, trust.ErrToken) {
		t.Errorf("a false hub: %v", err)
	}
	if _, err := e.Certificate(t.Context(), "edge-7"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a false token: %v", err)
	}
	if counts[200] != 4 || counts[401] != 2 {
		t.Errorf("counted %v", counts)
	}
}

func TestSignRefusesWhatIsNoRequest(t *testing.T) {
	if _, err := authority(t).Sign([]byte("junk"), nil, moment()); !errors.Is(err, trust.ErrRequest) {
		t.Error(err)
	}
}

func TestAuthorityIsReadAgain(t *testing.T) {
	a := authority(t)
	b := repotest.Must(trust.ReadAuthority(a.DER, a.Key()))(t)
	_, jwt, _ := strings.Cut(a.Token(moment().Add(time.Hour)), ".")
	if err := b.Check(jwt, moment()); err != nil {
		t.Error(err)
	}
}
