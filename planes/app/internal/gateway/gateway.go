// Package gateway is the app plane's cluster-gateway: an API server that is
// aggregated into the hub's and stores nothing, through which the hub's clients
// reach member clusters with the credential that a Secret of the hub holds.
//
// It knows no applications. What it says of members is what their Secrets say.
package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/machine/pki"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/internal/kit/process"
	"github.com/windtunnel/windtunnel/planes/internal/kit/words"
)

// Options are what a gateway is told.
type Options struct {
	process.Env
	Listen    string // host:port, TLS; port 0 takes any
	Aggregate bool   // register it with the hub's API server, which then proxies to it
}

// Default returns KubeVela's options.
func Default() Options { return words.DefaultsOf[Options]() }

// Words declares what a user may choose.
func (o *Options) Words() words.Set {
	return words.Set{
		words.Of(&o.Listen, "gateway-listen", "`HOST:PORT` of the gateway, TLS", words.Default("127.0.0.1:0", "")),
		words.Of(&o.Aggregate, "aggregated", "let the plane's API server proxy to the gateway; if there are several replicas, to the last that registered", words.Default(true, "")),
	}
}

// Server is a running gateway.
type Server struct {
	o         Options
	members   *members
	callers   *callers
	metrics   *metrics
	buffers   *buffers
	address   string // host:port
	authority []byte // PEM
}

// Run serves members until ctx ends, then takes its registrations back. A process
// that is killed leaves them: the hub answers 503 for members until the next one
// registers itself, and clients that connect directly pass it over.
func Run(ctx context.Context, o Options) error {
	config := rest.CopyConfig(o.Config)
	config.QPS = -1 // those that it asks for wait for it
	hub, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("app-gateway: %w", err)
	}
	callers, err := newCallers(ctx, hub, o.Clock)
	if err != nil {
		return fmt.Errorf("app-gateway: %w", err)
	}
	s := &Server{o: o, members: newMembers(hub), callers: callers, metrics: newMetrics(o.Registry), buffers: &buffers{}}
	return o.Work(ctx, func(ctx context.Context, g *process.Group) error {
		if err := s.members.startMembers(ctx, &g.WaitGroup); err != nil {
			return fmt.Errorf("app-gateway: %w", err)
		}
		return s.serveGateway(ctx, config)
	})
}

func (s *Server) serveGateway(ctx context.Context, config *rest.Config) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.o.Listen)
	if err != nil {
		return fmt.Errorf("app-gateway: listen on %s: %w", s.o.Listen, err)
	}
	s.address = listener.Addr().String()
	certificate, err := s.issueCertificate()
	if err != nil {
		return errors.Join(fmt.Errorf("app-gateway: %w", err), listener.Close())
	}
	server := &http.Server{
		Handler: s.newHandler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1000},
		// Who calls is decided by the certificate if there is one: package callers verifies it.
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert},
	}
	ended := make(chan error, 1)
	go func() { ended <- server.ServeTLS(listener, "", "") }()
	registration, err := s.registerReplica(ctx, config)
	if err == nil {
		s.o.Log.Info("gateway serves", "address", s.address, "aggregated", s.o.Aggregate)
		s.o.Registry.Ready()
		select {
		case <-ctx.Done():
		case err = <-ended:
			return errors.Join(fmt.Errorf("app-gateway: %w", err), registration.withdrawReplica())
		}
	} else if ctx.Err() != nil {
		err = nil
	}
	err = errors.Join(err, registration.withdrawReplica())
	shut, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if late := server.Shutdown(shut); late != nil { // watches go on for as long as one lets them
		err = errors.Join(err, server.Close())
	}
	if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}

// issueCertificate makes the certificate: for the names of the Service, by which the hub's
// API server checks it, and for the address.
func (s *Server) issueCertificate() (tls.Certificate, error) {
	now := s.o.Now()
	authority, err := pki.NewAuthority("app-gateway", now)
	if err != nil {
		return tls.Certificate{}, err
	}
	s.authority = authority.PEM()
	subject := pki.Subject{
		Name: "app-gateway", DNS: []string{"localhost", serviceHost, serviceHost + ".svc"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	host, _, err := net.SplitHostPort(s.address)
	if err != nil {
		return tls.Certificate{}, err
	}
	if ip := net.ParseIP(host); ip != nil && !ip.IsLoopback() {
		subject.IPs = append(subject.IPs, ip)
	}
	pair, err := authority.Issue(subject, now)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(pair.Cert, pair.Key)
}

// newHandler answers the paths of the group, to callers who may.
func (s *Server) newHandler() http.Handler {
	const base = "/apis/" + cluster.Group
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET "+base, discoverGroup)
	mux.HandleFunc("GET "+base+"/"+cluster.Version, discoverVersion)
	one := base + "/" + cluster.Version + "/" + cluster.Resource
	mux.Handle("GET "+one, s.requireAllowed("list", "", http.HandlerFunc(s.serveList)))
	mux.Handle("GET "+one+"/{name}", s.requireAllowed("get", "", http.HandlerFunc(s.serveGet)))
	mux.Handle("GET "+one+"/{name}/health", s.requireAllowed("get", "health", http.HandlerFunc(s.serveHealth)))
	mux.Handle(one+"/{name}/proxy/", s.requireAllowed("", "proxy", http.HandlerFunc(s.proxyRequest)))
	return mux
}
