// Package pki makes the certificate authorities, certificates and keys of one
// plane: ECDSA P-256, fresh for each run, in a private folder.
//
// It does not decide who needs which certificate: its callers do, such as package
// plane.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Validity of everything made here: a plane lives for one run, but `up` may be
// left running for a long time. An hour of backdating covers clock steps.
const (
	backdate = time.Hour
	lifetime = 365 * 24 * time.Hour
)

// Pair is a certificate and its key, PEM.
type Pair struct{ Cert, Key []byte }

// Subject is what a certificate says.
type Subject struct {
	Name   string   // common name: a user for Kubernetes
	Groups []string // organisations: groups for Kubernetes
	DNS    []string // names and addresses that a server is reached by;
	IPs    []net.IP // with none of them the certificate is for a client only
}

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes a self-signed authority that is valid at now.
func NewAuthority(name string, now time.Time) (*Authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template, err := newTemplate(Subject{Name: name}, now)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make authority %s: %w", name, err)
	}
	return &Authority{cert: cert, key: key, pem: encodePEM("CERTIFICATE", der)}, nil
}

// PEM returns the authority's certificate.
func (a *Authority) PEM() []byte { return a.pem }

// Issue makes a key and a certificate for s, valid at now. It serves clients
// and, if s has names or addresses, servers.
func (a *Authority) Issue(s Subject, now time.Time) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	template, err := newTemplate(s, now)
	if err != nil {
		return Pair{}, err
	}
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(s.DNS)+len(s.IPs) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate for %s: %w", s.Name, err)
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encodePEM("CERTIFICATE", der), Key: keyPEM}, nil
}

// NewKey returns a bare private key and its public half, PEM: what service
// account tokens are signed and checked with.
func NewKey() (private, public []byte, err error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	if private, err = encodeKey(key); err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encode public key: %w", err)
	}
	return private, encodePEM("PUBLIC KEY", der), nil
}

// Folder is a private folder of keys and certificates.
type Folder string

// NewFolder makes path with mode 0700; it must not exist.
func NewFolder(path string) (Folder, error) {
	if err := os.Mkdir(path, 0o700); err != nil {
		return "", fmt.Errorf("make folder for certificates: %w", err)
	}
	return Folder(path), nil
}

// Cert returns the path of a certificate.
func (f Folder) Cert(name string) string { return f.File(name + ".crt") }

// Key returns the path of a private key.
func (f Folder) Key(name string) string { return f.File(name + ".key") }

// File returns the path of a file.
func (f Folder) File(name string) string { return filepath.Join(string(f), name) }

// Write writes a file of mode 0600.
func (f Folder) Write(name string, content []byte) error {
	if err := os.WriteFile(f.File(name), content, 0o600); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// WritePair writes NAME.crt and NAME.key.
func (f Folder) WritePair(name string, p Pair) error {
	if err := f.Write(name+".crt", p.Cert); err != nil {
		return err
	}
	return f.Write(name+".key", p.Key)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make key: %w", err)
	}
	return key, nil
}

func newTemplate(s Subject, now time.Time) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: s.Name, Organization: s.Groups},
		DNSNames:     s.DNS,
		IPAddresses:  s.IPs,
		NotBefore:    now.Add(-backdate),
		NotAfter:     now.Add(lifetime),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
