package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// Service is the name of the gateway: of the Service that the hub's API server
// proxies to, of the ConfigMap in which replicas say where they are, and in their
// certificates.
const Service = "kubevela-cluster-gateway-service"

// Registered, in place of a URL, stands for the replicas that have registered
// themselves.
const Registered = "service"

// Replica is where one process of the gateway can be reached.
type Replica struct {
	Address string `json:"address"` // host:port
	CA      string `json:"ca"`      // PEM of its certificate's authority
}

// Direct says how a client reaches the gateway without the hub's API server.
type Direct struct {
	URL         string // of the gateway, or Registered
	CAFile      string // of a URL: PEM of its certificate's authority
	Connections int    // each to a replica by chance, requests take them in turn; at least 1
	Seed        uint64 // of that chance
	Client      string // who connects: another one of the same seed has another chance
}

// errReplicas says that there is no gateway to connect to.
var errReplicas = errors.New("no replica of the gateway has registered: is app-gateway running?")

// Validate joins all that is wrong with what a user may choose.
func (d Direct) Validate() error {
	if d.Connections < 1 {
		return fmt.Errorf("cluster-gateway-connections %d: want at least 1", d.Connections)
	}
	if d.URL == "" || d.URL == Registered {
		return nil
	}
	if u, err := url.Parse(d.URL); err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("cluster-gateway-url %q: want %s or https://HOST:PORT", d.URL, Registered)
	}
	return nil
}

// Transport returns what carries a client's requests to the gateway, with the
// identity and the wrappers of its configuration; nil where the requests go by the
// hub. A connection stays with its replica until it breaks, as behind a Service: HTTP/2
// needs no second one.
func (d Direct) Transport(config *rest.Config) (http.RoundTripper, error) {
	if d.URL == "" {
		return nil, nil
	}
	find, err := d.newFinder(config)
	if err != nil {
		return nil, err
	}
	own, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("identity at the gateway: %w", err)
	}
	out := &connections{}
	for i := range d.Connections {
		b := &balancer{find: find, clock: clock.Start(), rng: rand.New(rand.NewPCG(d.Seed, hashOf(fmt.Sprint(d.Client, "/", i))))}
		if own != nil {
			b.certificates, b.certificate = own.Certificates, own.GetClientCertificate
		}
		out.all = append(out.all, &http.Transport{DialTLSContext: b.dialReplica, ForceAttemptHTTP2: true, IdleConnTimeout: 90 * time.Second})
	}
	if config.WrapTransport != nil {
		return config.WrapTransport(out), nil
	}
	return out, nil
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // a hash takes everything
	return h.Sum64()
}

// newFinder returns what lists the replicas.
func (d Direct) newFinder(config *rest.Config) (func(context.Context) ([]Replica, error), error) {
	if d.URL == Registered {
		config = rest.CopyConfig(config)
		config.RateLimiter, config.QPS, config.WrapTransport = nil, -1, nil // a name service asks nobody
		core, err := typedcore.NewForConfig(config)
		if err != nil {
			return nil, fmt.Errorf("replicas of the gateway: %w", err)
		}
		return func(ctx context.Context) ([]Replica, error) { return readReplicas(ctx, core) }, nil
	}
	u, err := url.Parse(d.URL)
	if err != nil {
		return nil, fmt.Errorf("cluster-gateway-url: %w", err)
	}
	ca, err := os.ReadFile(d.CAFile)
	if err != nil {
		return nil, fmt.Errorf("cluster-gateway-ca-file: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	only := []Replica{{net.JoinHostPort(u.Hostname(), port), string(ca)}}
	return func(context.Context) ([]Replica, error) { return only, nil }, nil
}

// readReplicas reads where the replicas are, in the order of their addresses.
func readReplicas(ctx context.Context, core typedcore.CoreV1Interface) ([]Replica, error) {
	cm, err := core.ConfigMaps(api.SystemNamespace).Get(ctx, Service, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errReplicas, err)
	}
	var out []Replica
	for name, raw := range cm.Data {
		var r Replica
		if err := json.Unmarshal([]byte(raw), &r); err != nil {
			return nil, fmt.Errorf("replica %s of the gateway: %w", name, err)
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Replica) int { return strings.Compare(a.Address, b.Address) })
	return out, nil
}

// balancer connects to replicas by chance.
type balancer struct {
	find         func(context.Context) ([]Replica, error)
	clock        clock.Clock
	certificates []tls.Certificate
	certificate  func(*tls.CertificateRequestInfo) (*tls.Certificate, error)

	mu      sync.Mutex
	rng     *rand.Rand
	chosen  uint64     // what the replicas' order follows from
	changes clock.Time // when it may be another
}

// together is how long dials are taken for one: of requests that come at the same
// time each dials, and the first connection serves all of them.
const together = time.Second

// shuffleReplicas brings replicas into an order by chance.
func (b *balancer) shuffleReplicas(all []Replica) {
	b.mu.Lock()
	if now := b.clock.Now(); now >= b.changes {
		b.chosen, b.changes = b.rng.Uint64(), now.Add(together)
	}
	chosen := b.chosen
	b.mu.Unlock()
	rand.New(rand.NewPCG(chosen, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}

// dialReplica connects to one replica; one that cannot be reached is left for another.
func (b *balancer) dialReplica(ctx context.Context, network, _ string) (net.Conn, error) {
	all, err := b.find(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.Clone(all)
	b.shuffleReplicas(all)
	err = errReplicas
	for _, r := range all {
		var conn net.Conn
		if conn, err = b.connectTo(ctx, network, r); err == nil {
			return conn, nil
		}
	}
	return nil, fmt.Errorf("gateway: %w", err)
}

func (b *balancer) connectTo(ctx context.Context, network string, r Replica) (net.Conn, error) {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(r.CA)) {
		return nil, fmt.Errorf("replica %s: its authority is no certificate in PEM", r.Address)
	}
	host, _, err := net.SplitHostPort(r.Address)
	if err != nil {
		return nil, err
	}
	d := tls.Dialer{Config: &tls.Config{
		RootCAs: roots, ServerName: host, NextProtos: []string{"h2", "http/1.1"}, MinVersion: tls.VersionTLS12,
		Certificates: b.certificates, GetClientCertificate: b.certificate,
	}}
	return d.DialContext(ctx, network, r.Address)
}

// connections are several transports of one connection each, taken in turn.
type connections struct {
	all  []http.RoundTripper
	next atomic.Uint64
}

// RoundTrip sends a request by the next connection.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.all[c.next.Add(1)%uint64(len(c.all))].RoundTrip(r)
}
