package trust

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The paths of enrolment.
const (
	PathAuthority   = "/ca.crt"
	PathCertificate = "/edge.crt"
)

const (
	maxRequest = 1 << 20 // bytes of a signing request
	enrolling  = 32      // connections of a fleet to a hub, by which all its edges enrol
)

// Handler serves enrolment. counted is told the status of each answer.
func (a *Authority) Handler(now func() time.Time, counted func(path string, code int)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathAuthority, func(w http.ResponseWriter, _ *http.Request) {
		counted(PathAuthority, http.StatusOK)
		_, _ = w.Write(a.DER) // whoever asked has left
	})
	mux.HandleFunc("GET "+PathCertificate, func(w http.ResponseWriter, q *http.Request) {
		der, err := a.enrollNode(q, now())
		code := http.StatusOK
		switch {
		case errors.Is(err, ErrToken):
			code = http.StatusUnauthorized
		case err != nil:
			code = http.StatusInternalServerError
		}
		counted(PathCertificate, code)
		if err != nil {
			http.Error(w, err.Error(), code)
			return
		}
		_, _ = w.Write(der)
	})
	return mux
}

// enrollNode answers one request for a certificate: by token, or by the certificate
// that the node has already.
func (a *Authority) enrollNode(q *http.Request, now time.Time) ([]byte, error) {
	node := q.Header.Get("NodeName")
	if q.TLS != nil && len(q.TLS.PeerCertificates) > 0 {
		if err := a.requireKnown(q.TLS.PeerCertificates[0], node, now); err != nil {
			return nil, err
		}
	} else {
		jwt, ok := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer ")
		if !ok {
			return nil, fmt.Errorf("%w: there is none", ErrToken)
		}
		if err := a.Check(jwt, now); err != nil {
			return nil, err
		}
	}
	body, err := io.ReadAll(io.LimitReader(q.Body, maxRequest+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if len(body) > maxRequest {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrRequest, maxRequest)
	}
	return a.Sign(body, nil, now)
}

func (a *Authority) requireKnown(c *x509.Certificate, node string, now time.Time) error {
	_, err := c.Verify(x509.VerifyOptions{Roots: a.Pool(), CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return fmt.Errorf("%w: certificate: %w", ErrToken, err)
	}
	if c.Subject.CommonName != NamePrefix+node {
		return fmt.Errorf("%w: the certificate is of %s, not of node %s", ErrToken, c.Subject.CommonName, node)
	}
	return nil
}

// Enroller gets certificates from a hub.
type Enroller struct {
	Client *http.Client // of Unverified, or one that knows the authority
	Base   string       // such as https://127.0.0.1:10002
	Token  string
}

// Unverified returns a client that takes any server certificate: the authority's
// hash is checked in its place.
func Unverified() *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // see above
		MaxIdleConnsPerHost: enrolling, MaxConnsPerHost: enrolling,                               // one beyond what stays idle would shake hands again for each edge
	}}
}

// Authority fetches the authority's certificate and holds it against the token.
func (e *Enroller) Authority(ctx context.Context) (*x509.CertPool, error) {
	der, err := e.getSigned(ctx, PathAuthority, "", nil)
	if err != nil {
		return nil, err
	}
	print, _, _ := strings.Cut(e.Token, ".")
	if Fingerprint(der) != print {
		return nil, fmt.Errorf("%w: the authority at %s is another than the token's", ErrToken, e.Base)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("authority of %s: %w", e.Base, err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(c)
	return pool, nil
}

// Certificate makes a key and has its certificate signed for a node.
func (e *Enroller) Certificate(ctx context.Context, node string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{Organization: []string{Organization}, CommonName: NamePrefix + node},
	}, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	der, err := e.getSigned(ctx, PathCertificate, node, request)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

func (e *Enroller) getSigned(ctx context.Context, path, node string, body []byte) ([]byte, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, e.Base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if node != "" {
		_, jwt, _ := strings.Cut(e.Token, ".")
		q.Header.Set("Nodename", node)
		q.Header.Set("Authorization", "Bearer "+jwt)
	}
	answer, err := e.Client.Do(q)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxRequest))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, fmt.Errorf("%s%s: %w", e.Base, path, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s%s: %s: %s", e.Base, path, answer.Status, strings.TrimSpace(string(raw)))
	}
	return raw, nil
}
