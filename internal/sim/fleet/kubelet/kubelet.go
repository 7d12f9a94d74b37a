// Package kubelet is the server that stands for the kubelets of all simulated
// nodes: logs, exec, attach and port-forward as kwok's objects say, the metrics
// of its Metric objects, and health.
//
// One server answers for many nodes, on plain HTTP and TLS at one address. It
// runs no pods: what a pod's container says is in files that Logs objects name,
// what is run in it is run on this machine, if an Exec object allows it. Package
// configuration reads the objects; the verb `fleet` starts the server.
package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/interop/kwok/configuration"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
)

// Options are what a server needs.
type Options struct {
	Address      string   // host:port; default 127.0.0.1:0
	CertFile     string   // with KeyFile; empty: a certificate of its own making
	KeyFile      string   //
	Names        []string // host names and addresses of that certificate besides the loopback ones
	ClientCAFile string   // when given, only clients with a certificate of one of its authorities are answered

	Node     string                 // the only node that the server stands for; empty: all of World's
	World    World                  // may be nil: no metrics, and pods are not looked at
	Objects  *configuration.Objects // may be nil: none
	Metrics  http.Handler           // answers at /metrics; may be nil
	NoStream bool                   // neither logs, exec, attach, port-forward nor profiles
	Profiles bool                   // profiles of this process at /debug/pprof/

	Seed  uint64 // of Rand() in expressions
	Clock clock.Clock
	Log   *slog.Logger // may be nil
}

// Limits of a server.
const (
	maxSessions   = 1024 // of exec, attach, port-forward and followed logs at once
	maxHeader     = 1 << 20
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	closeTimeout  = 5 * time.Second
)

// Server is a running server. Close it after use.
type Server struct {
	options  Options
	log      *slog.Logger
	formulas *expression.Formulas
	rules    atomic.Pointer[rules]
	totals   totals
	sessions chan struct{} // a place for each session
	seen     once
	scrapes  atomic.Uint64

	listener net.Listener
	http     *http.Server
	cancel   context.CancelFunc
	wait     guard.Group

	mu     sync.Mutex
	closed bool // no session begins any more
}

// Start binds the address and serves until Close or the end of ctx. The error
// says what is wrong with the objects, the certificates or the address.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Objects == nil {
		o.Objects = &configuration.Objects{}
	}
	s := &Server{options: o, log: o.Log, sessions: make(chan struct{}, maxSessions)}
	var err error
	if s.formulas, err = expression.NewFormulas(); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if err := s.Configure(o.Objects); err != nil {
		return nil, err
	}
	config, err := s.tlsConfig()
	if err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	if s.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", o.Address); err != nil {
		return nil, fmt.Errorf("kubelet: %w", err)
	}
	s.warnAboutAccess(o.Objects)
	ctx, s.cancel = context.WithCancel(ctx)
	s.http = &http.Server{
		Handler: s.requireAccess(s.newHandler()), TLSConfig: config, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		TLSNextProto: map[string]func(*http.Server, *tlsConn, http.Handler){}, // HTTP/1.1: its connections can be taken over
		BaseContext:  func(net.Listener) context.Context { return ctx },
		ErrorLog:     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.startServing(ctx)
	return s, nil
}

// startServing starts the goroutines that serve.
func (s *Server) startServing(ctx context.Context) {
	split := newSplitter(s.listener)
	s.wait.Go(split.acceptConnections)
	s.wait.Go(func() { s.logServeError(s.http.Serve(split.plain)) })
	s.wait.Go(func() { s.logServeError(s.http.ServeTLS(split.secure, "", "")) })
	s.wait.Go(func() {
		<-ctx.Done()
		s.shutDown()
	})
}

func (s *Server) logServeError(err error) {
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.log.Error("server ended", "err", err)
	}
}

// shutDown ends all requests. Connections that were taken over end with their
// context.
func (s *Server) shutDown() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = s.listener.Close()
	if err := s.http.Shutdown(ctx); err != nil {
		_ = s.http.Close()
	}
}

// Close ends all requests and sessions and waits for them. It is idempotent.
func (s *Server) Close() error {
	s.cancel()
	s.wait.Wait()
	return nil
}

// beginSession takes a place for a session; end gives it back. false when there is none.
func (s *Server) beginSession() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	select {
	case s.sessions <- struct{}{}:
		s.wait.Add(1)
		return true
	default:
		return false
	}
}

func (s *Server) endSession() {
	<-s.sessions
	s.wait.Done()
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// warnAboutAccess says, once, what others may do.
func (s *Server) warnAboutAccess(o *configuration.Objects) {
	if s.options.ClientCAFile != "" || s.options.NoStream {
		return
	}
	if s.isPublic() && s.seen.isFirst("public") {
		s.log.Warn("without a client CA anyone who reaches this address can read the logs and run the commands that objects allow", "address", s.listener.Addr().String())
	}
	if !o.Execs.Empty() && s.seen.isFirst("exec") {
		s.log.Warn("without a client CA any user of this machine can run commands as this one: an Exec object allows it", "address", s.listener.Addr().String())
	}
}

// isPublic says whether others than this machine can reach the server.
func (s *Server) isPublic() bool {
	address, ok := s.listener.Addr().(*net.TCPAddr)
	return !ok || !address.IP.IsLoopback()
}

// Configure replaces the objects. Those with faults are left out; the error
// joins the faults. It may be called while the server answers, by one caller at a
// time.
func (s *Server) Configure(o *configuration.Objects) error {
	r, err := s.compileRules(o)
	s.rules.Store(r)
	if s.listener != nil {
		s.warnAboutAccess(o)
	}
	if world, ok := s.options.World.(needed); ok {
		world.Need(r.words)
	}
	return err
}
