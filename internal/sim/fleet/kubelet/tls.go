package kubelet

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"slices"
	"time"
)

type tlsConn = tls.Conn

// How long a certificate of the server's own making holds, and how much clocks
// may differ.
const (
	lifetime = 365 * 24 * time.Hour
	backdate = time.Hour
)

func (s *Server) tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	own, err := s.loadCertificate()
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{own}
	if s.options.ClientCAFile == "" {
		return c, nil
	}
	pem, err := os.ReadFile(s.options.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("client CA: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("client CA: %s: no certificate in it", s.options.ClientCAFile)
	}
	c.ClientAuth = tls.VerifyClientCertIfGiven // guard refuses the others, except for health
	return c, nil
}

func (s *Server) loadCertificate() (tls.Certificate, error) {
	if (s.options.CertFile == "") != (s.options.KeyFile == "") {
		return tls.Certificate{}, errors.New("a certificate and its key go together")
	}
	if s.options.CertFile != "" {
		c, err := tls.LoadX509KeyPair(s.options.CertFile, s.options.KeyFile)
		if err != nil {
			return c, fmt.Errorf("certificate: %w", err)
		}
		return c, nil
	}
	now := s.options.Clock.Wall(s.options.Clock.Now())
	c, err := selfSigned(slices.Concat([]string{"localhost", "127.0.0.1", "::1"}, s.options.Names), now)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	return c, nil
}

// selfSigned makes a certificate for host names and addresses.
func selfSigned(names []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "windtunnel fleet"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(lifetime),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if name != "" {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
