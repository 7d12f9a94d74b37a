package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// members are the clusters that Secrets name, with a connection to each that was
// asked for. Only Secrets with a credential's label are watched.
type members struct {
	informer cache.SharedIndexInformer

	mu   sync.Mutex
	open map[string]*upstream
}

// upstream is the way to one member, with its credential.
type upstream struct {
	version   string // of the Secret
	base      *url.URL
	token     string
	transport *http.Transport
}

// errNoMember says that no Secret names a cluster.
var errNoMember = errors.New("no such cluster")

func newMembers(hub kubernetes.Interface) *members {
	return &members{informer: cluster.Informer(hub.CoreV1().RESTClient(), 10*time.Hour), open: map[string]*upstream{}}
}

// startMembers returns when all members are known. Ways whose Secret has gone are closed.
func (m *members) startMembers(ctx context.Context, wait *sync.WaitGroup) error {
	err := loop.Watch(m.informer, func(old, now *corev1.Secret) {
		if now == nil {
			m.closeUpstream(old.Name)
		}
	})
	if err != nil {
		return err
	}
	return loop.Start(ctx, wait, m.informer)
}

func (m *members) closeUpstream(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.open[name]; u != nil {
		u.transport.CloseIdleConnections()
		delete(m.open, name)
	}
}

// secretOf returns the Secret of a member.
func (m *members) secretOf(name string) (*corev1.Secret, error) {
	s, joined := slim.Lookup[*corev1.Secret](m.informer, api.SystemNamespace+"/"+name)
	if !joined {
		return nil, errNoMember
	}
	return s, nil
}

// allSecrets returns the Secrets of all members in the order of their names.
func (m *members) allSecrets() (out []*corev1.Secret) {
	out = slim.All[*corev1.Secret](m.informer)
	slices.SortFunc(out, func(a, b *corev1.Secret) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// upstreamTo returns the way to a member, made anew where its Secret has changed.
func (m *members) upstreamTo(name string) (*upstream, error) {
	s, err := m.secretOf(name)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.open[name]
	if old != nil && old.version == s.ResourceVersion {
		return old, nil
	}
	u, err := newUpstream(s)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.transport.CloseIdleConnections()
	}
	m.open[name] = u
	return u, nil
}

func newUpstream(s *corev1.Secret) (*upstream, error) {
	member, err := cluster.FromSecret(s)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(member.Endpoint)
	if err != nil || base.Host == "" {
		return nil, fmt.Errorf("secret %s: endpoint %q is no URL", s.Name, member.Endpoint)
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	switch {
	case len(member.CA) == 0:
		config.InsecureSkipVerify = true //nolint:gosec // the Secret says so: cluster-gateway's field insecure
	default:
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(member.CA) {
			return nil, fmt.Errorf("secret %s: ca.crt is no certificate in PEM", s.Name)
		}
	}
	if member.Token == "" {
		pair, err := tls.X509KeyPair(member.Cert, member.Key)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", s.Name, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return &upstream{
		version: s.ResourceVersion, base: base, token: member.Token,
		transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
			HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}}, // a member that fell silent is dialled anew
	}, nil
}
