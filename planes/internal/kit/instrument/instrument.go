// Package instrument is what the processes of a reference plane say of
// themselves: /metrics under the names of the project that the plane stands for,
// /healthz, /readyz and /debug/pprof on a loopback address.
//
// KubeVirt's own histograms cannot show what a throttled controller does: its
// rate-limiter buckets end at half a second, its queue buckets are decades, its
// phase buckets are so wide that a year of runs read exactly 15 s. Here every
// histogram has buckets that grow by a quarter, from 1 ms to more than an hour,
// and native histograms of 1.1 beside them where the scraper asks for protobuf.
//
// It judges nothing.
package instrument

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Registry holds the metrics of one process.
type Registry struct {
	*prometheus.Registry
	prefix string
	queues queues
	calls  calls
	ready  atomic.Bool
	mux    *http.ServeMux
}

// New returns a registry with the metrics of queues, clients, the Go runtime
// and the process. The names of the first two begin with the prefix, which is
// that of the project that a plane stands for: "kubevirt" gives
// kubevirt_workqueue_depth. Without one they are controller-runtime's.
func New(prefix string) *Registry {
	if prefix != "" {
		prefix += "_"
	}
	r := &Registry{Registry: prometheus.NewRegistry(), prefix: prefix, mux: http.NewServeMux()}
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	r.queues.registerMetrics(r)
	r.calls.registerMetrics(r)
	r.addRoutes()
	return r
}

// Ready says that the process does its work; /readyz says no before.
func (r *Registry) Ready() { r.ready.Store(true) }

// IsReady tells whether it has said so.
func (r *Registry) IsReady() bool { return r.ready.Load() }

// Server answers on one address. Close it after use.
type Server struct {
	http *http.Server
	done chan struct{}
	// Address is host:port, with the port that was given.
	Address string
}

// Handle lets servers answer one more path.
func (r *Registry) Handle(path string, h http.Handler) { r.mux.Handle(path, h) }

// ServeHTTP answers /metrics, /healthz, /readyz, /debug/pprof and what Handle was told.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) { r.mux.ServeHTTP(w, q) }

func (r *Registry) addRoutes() {
	r.Handle("/metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{}))
	r.mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !r.IsReady() {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	for path, handler := range map[string]http.HandlerFunc{"": pprof.Index, "profile": pprof.Profile, "symbol": pprof.Symbol, "trace": pprof.Trace} {
		r.mux.HandleFunc("/debug/pprof/"+path, handler)
	}
}

// Serve answers on an address.
func (r *Registry) Serve(ctx context.Context, address string) (*Server, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	s := &Server{
		http:    &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second},
		done:    make(chan struct{}),
		Address: listener.Addr().String(),
	}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener) // ends with ErrServerClosed
	}()
	return s, nil
}

// Close ends the server, letting answers under way go out for a second.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	<-s.done
	return err
}
