// Package trust is how an edge gets its certificate: KubeEdge's authority, tokens
// and signing requests over HTTPS, both ends of it.
//
// Keys are ECDSA P-256, as KubeEdge's are.
package trust

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// Lifetimes of what is issued.
const (
	CertificateLasts = 365 * 24 * time.Hour
	TokenLasts       = 24 * time.Hour
	authorityLasts   = 100 * 365 * 24 * time.Hour
)

// Organization and NamePrefix are what an edge is called in its certificate.
const (
	Organization = "system:nodes"
	NamePrefix   = "system:node:"
)

// Errors of tokens and requests, which are answered with 401.
var (
	ErrToken   = errors.New("token refused")
	ErrRequest = errors.New("signing request refused")
)

// Authority signs the certificates of hubs and edges.
type Authority struct {
	DER  []byte
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	der  []byte // of the key: SEC1, which tokens are signed under
}

// NewAuthority makes an authority.
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1024), Subject: pkix.Name{CommonName: "KubeEdge"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(authorityLasts),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	return ReadAuthority(der, keyDER)
}

// ReadAuthority returns the authority of a certificate and a key in SEC1, as the
// Secret casecret has them.
func ReadAuthority(certificate, key []byte) (*Authority, error) {
	cert, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	private, err := x509.ParseECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("read the authority's key: %w", err)
	}
	return &Authority{DER: certificate, cert: cert, key: private, der: key}, nil
}

// Key returns the authority's key in SEC1.
func (a *Authority) Key() []byte { return a.der }

// Pool returns a pool of this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// Sign signs what an edge, or whoever has a token, asks for: the request in DER,
// the uses wanted; none means those of a client.
func (a *Authority) Sign(request []byte, uses []x509.ExtKeyUsage, now time.Time) ([]byte, error) {
	q, err := x509.ParseCertificateRequest(request)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if err := q.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if len(uses) == 0 {
		uses = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	return a.issueCertificate(q.Subject, q.PublicKey, uses, &x509.Certificate{DNSNames: q.DNSNames, IPAddresses: q.IPAddresses}, now)
}

func (a *Authority) issueCertificate(name pkix.Name, public any, uses []x509.ExtKeyUsage, names *x509.Certificate, now time.Time) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	t := &x509.Certificate{
		SerialNumber: serial, Subject: name, DNSNames: names.DNSNames, IPAddresses: names.IPAddresses,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(CertificateLasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: uses,
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return der, nil
}

// Server returns the certificate of a hub that edges reach at these addresses.
func (a *Authority) Server(addresses []net.IP, names []string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make a hub's key: %w", err)
	}
	der, err := a.issueCertificate(pkix.Name{CommonName: "kubeedge.io", Organization: []string{"KubeEdge"}}, key.Public(),
		[]x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, &x509.Certificate{IPAddresses: addresses, DNSNames: names}, now)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Client returns a certificate of a node, without enrolment.
func (a *Authority) Client(node string, now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("make an edge's key: %w", err)
	}
	der, err := a.issueCertificate(pkix.Name{CommonName: NamePrefix + node, Organization: []string{Organization}}, key.Public(),
		[]x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, &x509.Certificate{}, now)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// tokenHead returns the begin of every JWT here.
func tokenHead() string {
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
}

// Token returns what lets an edge enrol until expiry: the hash of the authority's
// certificate, by which the edge knows it, and a JWT.
func (a *Authority) Token(expiry time.Time) string {
	claim := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, expiry.Unix()))
	signed := tokenHead() + "." + claim
	return Fingerprint(a.DER) + "." + signed + "." + a.signText(signed)
}

func (a *Authority) signText(text string) string {
	m := hmac.New(sha256.New, a.der)
	_, _ = m.Write([]byte(text)) // a hash takes everything
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// Fingerprint is how an edge knows an authority.
func Fingerprint(der []byte) string {
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:])
}

// Check says whether a JWT lets in; the error is ErrToken.
func (a *Authority) Check(jwt string, now time.Time) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 || parts[0] != tokenHead() {
		return fmt.Errorf("%w: no JWT of HS256", ErrToken)
	}
	if !hmac.Equal([]byte(parts[2]), []byte(a.signText(parts[0]+"."+parts[1]))) {
		return fmt.Errorf("%w: signed by somebody else", ErrToken)
	}
	var claim struct {
		Expiry *int64 `json:"exp"`
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(raw, &claim)
	}
	switch {
	case err != nil || claim.Expiry == nil:
		return fmt.Errorf("%w: it does not say when it expires", ErrToken)
	case now.Unix() >= *claim.Expiry:
		return fmt.Errorf("%w: expired at %s", ErrToken, time.Unix(*claim.Expiry, 0).UTC().Format(time.RFC3339))
	}
	return nil
}
