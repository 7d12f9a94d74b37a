package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func moment() time.Time { return time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC) }

func authority(t *testing.T, name string) *pki.Authority {
	t.Helper()
	return repotest.Must(pki.NewAuthority(name, moment()))(t)
}

func issue(t *testing.T, a *pki.Authority, s pki.Subject) (pki.Pair, *x509.Certificate) {
	t.Helper()
	p := repotest.Must(a.Issue(s, moment()))(t)
	if _, err := tls.X509KeyPair(p.Cert, p.Key); err != nil {
		t.Fatalf("key and certificate do not belong together: %v", err)
	}
	block, _ := pem.Decode(p.Cert)
	cert := repotest.Must(x509.ParseCertificate(block.Bytes))(t)
	return p, cert
}

func TestIssuedCertificatesVerifyAgainstTheirOwnAuthorityOnly(t *testing.T) {
	ours, other := authority(t, "ours"), authority(t, "other")
	server := pki.Subject{Name: "api", DNS: []string{"kubernetes"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}}
	client := pki.Subject{Name: "user", Groups: []string{"g1", "g2"}}
	cases := []struct {
		name    string
		by      *pki.Authority
		subject pki.Subject
		usage   x509.ExtKeyUsage
		host    string
		after   time.Duration
		ok      bool
	}{
		{"server by address", ours, server, x509.ExtKeyUsageServerAuth, "127.0.0.1", 0, true},
		{"server by name", ours, server, x509.ExtKeyUsageServerAuth, "kubernetes", 0, true},
		{"server as client, as etcd's own calls are", ours, server, x509.ExtKeyUsageClientAuth, "", 0, true},
		{"server under another name", ours, server, x509.ExtKeyUsageServerAuth, "example.org", 0, false},
		{"client", ours, client, x509.ExtKeyUsageClientAuth, "", 0, true},
		{"client as server", ours, client, x509.ExtKeyUsageServerAuth, "", 0, false},
		{"another authority", other, client, x509.ExtKeyUsageClientAuth, "", 0, false},
		{"half an hour before", ours, client, x509.ExtKeyUsageClientAuth, "", -30 * time.Minute, true},
		{"after two years", ours, client, x509.ExtKeyUsageClientAuth, "", 2 * 365 * 24 * time.Hour, false},
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ours.PEM())
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, cert := issue(t, c.by, c.subject)
			_, err := cert.Verify(x509.VerifyOptions{
				Roots: roots, DNSName: c.host, KeyUsages: []x509.ExtKeyUsage{c.usage}, CurrentTime: moment().Add(c.after),
			})
			if (err == nil) != c.ok {
				t.Errorf("verify: %v, want success %v", err, c.ok)
			}
		})
	}
}

func TestSubjectIsUserAndGroups(t *testing.T) {
	_, cert := issue(t, authority(t, "ca"), pki.Subject{Name: "windtunnel:load", Groups: []string{"windtunnel"}})
	if cert.Subject.CommonName != "windtunnel:load" || len(cert.Subject.Organization) != 1 || cert.Subject.Organization[0] != "windtunnel" {
		t.Errorf("subject %v", cert.Subject)
	}
	if cert.IsCA {
		t.Error("a client certificate may sign others")
	}
}

func TestFolderIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pki")
	f := repotest.Must(pki.NewFolder(path))(t)
	p, _ := issue(t, authority(t, "ca"), pki.Subject{Name: "u"})
	repotest.NoError(t, f.WritePair("u", p))
	for file, want := range map[string]os.FileMode{path: 0o700 | os.ModeDir, f.Cert("u"): 0o600, f.Key("u"): 0o600} {
		info := repotest.Must(os.Stat(file))(t)
		if info.Mode() != want {
			t.Errorf("%s has mode %v, want %v", file, info.Mode(), want)
		}
	}
	if _, err := pki.NewFolder(path); err == nil {
		t.Error("a folder that exists was taken over")
	}
}

func TestNewKeyHalvesBelongTogether(t *testing.T) {
	private, public, err := pki.NewKey()
	repotest.NoError(t, err)
	block, _ := pem.Decode(private)
	key := repotest.Must(x509.ParseECPrivateKey(block.Bytes))(t)
	block, _ = pem.Decode(public)
	pub := repotest.Must(x509.ParsePKIXPublicKey(block.Bytes))(t)
	if !key.PublicKey.Equal(pub) {
		t.Error("the public key is another one")
	}
}

func Example() {
	now := time.Now()
	ca, _ := pki.NewAuthority("plane", now)
	pair, _ := ca.Issue(pki.Subject{Name: "windtunnel:load", Groups: []string{"windtunnel"}}, now)
	_, err := tls.X509KeyPair(pair.Cert, pair.Key)
	fmt.Println(err)
	// Output: <nil>
}
