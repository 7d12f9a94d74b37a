// Package hollow is a Kubernetes API server in memory, of which thousands fit
// into one process: hollow clusters. Each has an address of its own, objects,
// versions and watches; what does not differ between clusters is there once.
//
// Objects are kept as the bytes that clients read, and what a request means is
// done with the API server's own libraries: patches, server-side apply, errors,
// selectors. There is no admission, no validation but that of metadata and of
// CustomResourceDefinitions' schemas, and no authorization; docs/how-to/hollow.md has
// the list.
package hollow

import (
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/backend"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/control"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/h2"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/kind"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/models"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/registry"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/serve"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// Version is the version of Kubernetes whose API the clusters have.
const Version = kind.Version

// DefaultHistoryBytes is 128 MiB.
const DefaultHistoryBytes = 128 << 20

// idleTimeout is how long a connection may be without requests.
const idleTimeout = 2 * time.Minute

// headerLimit is how long the header of a request may be, as over HTTP/2.
const headerLimit = 256 << 10

// Models stand in for kubelets, scheduler and controllers in every cluster.
type Models = models.Options

// Options say how a server and its clusters behave. The zero value is useful.
type Options struct {
	// Host is the address to listen at; default 127.0.0.1.
	Host string
	// Shared serves all clusters at one port, as https://HOST:PORT/clusters/NAME;
	// without it each has a port of its own.
	Shared bool
	// Port is that of Shared, or of the first cluster, the others' follow; 0: any
	// that are free.
	Port int
	// Token is the bearer token that every cluster takes; default: one by chance.
	Token string
	// History is how long watches can go back; default 75 s, as an API server's.
	History time.Duration
	// HistoryBytes is how many bytes of objects that were replaced or deleted a cluster
	// keeps at most for watches and lists of the past; default DefaultHistoryBytes.
	HistoryBytes int
	// Reads and Writes are how many requests a cluster takes at once; more are
	// refused with 429. Watches do not count. Default 400 and 200.
	Reads, Writes int
	// Models stand in for kubelets, scheduler and controllers.
	Models Models
	// Clock is that of the clusters; default: a new one.
	Clock *clock.Clock
}

func (o *Options) setDefaults() {
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	if o.Token == "" {
		o.Token = rand.Text()
	}
	if o.History == 0 {
		o.History = 75 * time.Second
	}
	if o.HistoryBytes == 0 {
		o.HistoryBytes = DefaultHistoryBytes
	}
	if o.Reads == 0 {
		o.Reads = 400
	}
	if o.Writes == 0 {
		o.Writes = 200
	}
	if o.Clock == nil {
		c := clock.Start()
		o.Clock = &c
	}
}

// Server is a process's hollow clusters. Its methods may be called from many
// goroutines. Close it after use.
type Server struct {
	options    Options
	clock      clock.Clock
	ca         []byte
	client     string       // the token of Cluster.Client
	http       *http.Server // HTTP/1.1
	h2         *h2.Server
	config     *tls.Config
	shared     net.Listener  // nil unless Options.Shared
	done       chan struct{} // closed by Close
	running    guard.Group
	closing    sync.Once
	registries registry.Shared
	answers    *serve.Shared
	engine     *models.Engine // nil without models

	mu       sync.Mutex
	clusters map[string]*Cluster
	closed   bool
	ports    int // that were given to clusters
}

// New starts a server without clusters.
func New(o Options) (*Server, error) {
	o.setDefaults()
	s := &Server{options: o, clock: *o.Clock, done: make(chan struct{}), clusters: map[string]*Cluster{}, client: rand.Text()}
	if err := s.makeCertificate(); err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0)
	s.h2 = h2.New(h2.Options{Handler: guard.Handler(s), Quick: s.isQuick, Clock: s.clock, Streams: 1000, Idle: idleTimeout, Timeout: backend.RequestTimeout, ErrorLog: silent})
	s.http = &http.Server{
		Handler: guard.Handler(s), TLSConfig: s.config.Clone(), ErrorLog: silent,
		MaxHeaderBytes:    headerLimit,
		ReadHeaderTimeout: 30 * time.Second, WriteTimeout: backend.RequestTimeout, IdleTimeout: idleTimeout, // of watches, each piece has its own
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": s.h2.ServeTLS},
		BaseContext:  s.clusterContext,
	}
	var err error
	if s.engine, err = models.New(o.Models, s.clock, s.done); err != nil {
		return nil, fmt.Errorf("models of hollow clusters: %w", err)
	}
	so := serve.Options{Reads: o.Reads, Writes: o.Writes}
	if s.engine != nil {
		so.Metrics = s.engine.WriteMetrics
	}
	s.answers = serve.NewShared(so)
	if o.Shared {
		l, err := net.Listen("tcp", net.JoinHostPort(o.Host, fmt.Sprint(o.Port)))
		if err != nil {
			return nil, fmt.Errorf("listen for hollow clusters: %w", err)
		}
		s.shared = l
		s.serveListener(tls.NewListener(h2.Listener{Listener: l}, s.config))
	}
	s.running.Go(s.trimHistories)
	if s.engine != nil {
		s.running.Go(s.engine.Run)
	}
	return s, nil
}

// makeCertificate makes the certificate that all clusters show.
func (s *Server) makeCertificate() error {
	now := s.wallTime()
	ca, err := pki.NewAuthority("hollow", now)
	if err != nil {
		return fmt.Errorf("make authority of hollow clusters: %w", err)
	}
	subject := pki.Subject{Name: "kube-apiserver", DNS: []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}}
	if ip := net.ParseIP(s.options.Host); ip != nil {
		subject.IPs = append(subject.IPs, ip)
	} else {
		subject.DNS = append(subject.DNS, s.options.Host)
	}
	pair, err := ca.Issue(subject, now)
	if err != nil {
		return fmt.Errorf("make certificate of hollow clusters: %w", err)
	}
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return fmt.Errorf("make certificate of hollow clusters: %w", err)
	}
	s.ca = ca.PEM()
	s.config = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		DynamicRecordSizingDisabled: true} // an answer, a record
	return nil
}

func (s *Server) wallTime() time.Time { return s.clock.Wall(s.clock.Now()) }

// serveListener accepts connections until the server is closed.
func (s *Server) serveListener(l net.Listener) {
	s.running.Go(func() { _ = s.http.Serve(l) }) // it ends with the listener
}

// trimHistories forgets what is older than the history, now and then.
func (s *Server) trimHistories() {
	tick := time.NewTicker(s.options.History / 5)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			for _, c := range s.Clusters() {
				c.backend.Registry().Store().Trim()
			}
		case <-s.done:
			return
		}
	}
}

// Cluster returns the cluster of a name, which it makes if there is none. The
// error says that no port is to be had, or that the server is closed.
func (s *Server) Cluster(name string) (*Cluster, error) {
	c, fresh, err := s.addCluster(name)
	if err != nil || !fresh {
		return c, err
	}
	if err := models.Populate(c.backend, s.options.Models.Nodes); err != nil { // while the others answer
		return c, fmt.Errorf("make nodes of hollow cluster %s: %w", name, err)
	}
	return c, nil
}

func (s *Server) addCluster(name string) (c *Cluster, fresh bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.clusters[name]; c != nil {
		return c, false, nil
	}
	if s.closed {
		return nil, false, http.ErrServerClosed
	}
	if c, err = s.newCluster(name); err != nil {
		return nil, false, err
	}
	s.clusters[name] = c
	return c, true, nil
}

// newCluster makes a cluster and serves it.
func (s *Server) newCluster(name string) (*Cluster, error) {
	c := &Cluster{Name: name, server: s, faults: control.NewFaults()}
	so := store.Options{Clock: s.clock, History: s.options.History, HistoryBytes: s.options.HistoryBytes}
	if s.engine != nil {
		so.Notify = func(t *store.Table, e *store.Event) { s.engine.Notify(c.backend, t, e) }
	}
	ro := registry.Options{Store: store.New(so), Shared: &s.registries}
	if s.options.Models.ServiceAccounts {
		ro.RootCA = string(s.ca)
	}
	r := registry.New(ro)
	c.accounts = control.NewAccounts(name, s.options.Token, s.client, r)
	c.backend = backend.New(r, s.clock, &s.running, s.done)
	l, err := s.assignAddress(c)
	if err != nil {
		return nil, err
	}
	c.backend.Enqueue(r.CreateSystemNamespaces(s.wallTime()))
	c.http = serve.NewCluster(s.answers, c.address, c.backend, c.accounts, c.faults)
	if l != nil {
		c.serveAt(l)
	}
	return c, nil
}

// assignAddress gives a cluster its address, and its listener unless there is a shared one.
func (s *Server) assignAddress(c *Cluster) (net.Listener, error) {
	if s.shared != nil {
		c.address = "https://" + s.shared.Addr().String() + "/clusters/" + c.Name
		return nil, nil
	}
	port := 0
	if s.options.Port > 0 {
		port = s.options.Port + s.ports
	}
	l, err := net.Listen("tcp", net.JoinHostPort(s.options.Host, fmt.Sprint(port)))
	if err != nil {
		return nil, fmt.Errorf("listen for hollow cluster %s: %w", c.Name, err)
	}
	s.ports++
	c.address = "https://" + l.Addr().String()
	return l, nil
}

// Clusters returns all clusters, in no order.
func (s *Server) Clusters() []*Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.clusters))
}

// Close ends all clusters and waits for their requests to end. It is idempotent.
func (s *Server) Close() error {
	s.closing.Do(func() {
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		close(s.done)
		_ = s.h2.Close()
		_ = s.http.Close() // what it could say of its listeners helps nobody
	})
	s.running.Wait()
	return nil
}

// ServeHTTP answers a request to any of the clusters.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	if s.closed { // nobody is waited for that comes after Close began to wait
		s.mu.Unlock()
		return
	}
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	c, path := s.findCluster(r)
	if c == nil {
		http.NotFound(w, r)
		return
	}
	c.http.Serve(w, r, path)
}

// isQuick reports whether a request is answered at once.
func (s *Server) isQuick(r *http.Request) bool {
	c, path := s.findCluster(r)
	return c != nil && c.http.IsQuick(r, path)
}

// findCluster returns the cluster that a request is to, and the path that it means there;
// nil if there is none.
func (s *Server) findCluster(r *http.Request) (c *Cluster, path string) {
	if c, ok := r.Context().Value(clusterKey{}).(*Cluster); ok {
		return c, r.URL.Path
	}
	rest, ok := strings.CutPrefix(r.URL.Path, "/clusters/")
	if !ok {
		return nil, ""
	}
	name, below, _ := strings.Cut(rest, "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clusters[name], "/" + below
}
