package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// authority signs certificates of tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key := repotest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der := repotest.Must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	cert := repotest.Must(x509.ParseCertificate(der))(t)
	return &authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func (a *authority) sign(t *testing.T, name string, isClient bool) tls.Certificate {
	t.Helper()
	key := repotest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	usage := x509.ExtKeyUsageServerAuth
	if isClient {
		usage = x509.ExtKeyUsageClientAuth
	}
	der := repotest.Must(x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}, a.cert, key.Public(), a.key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// write writes a certificate and its key to files.
func (a *authority) write(t *testing.T, folder string, c tls.Certificate) (certFile, keyFile string) {
	t.Helper()
	key := repotest.Must(x509.MarshalPKCS8PrivateKey(c.PrivateKey))(t)
	certFile, keyFile = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
	for path, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: c.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		repotest.NoError(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	}
	return certFile, keyFile
}

func dialTo(t *testing.T, s *Server) net.Conn {
	t.Helper()
	return repotest.Must(net.Dial("tcp", s.Addr().String()))(t)
}
