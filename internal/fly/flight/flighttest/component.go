// Package flighttest is what tests of package flight run against: a server with
// some resources, and a component with metrics.
package flighttest

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// NewServer returns a server that shows configmaps, namespaces, pods and
// deployments.
func NewServer(t testing.TB) *apitest.Server {
	return apitest.New(t,
		apitest.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true},
		apitest.Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"},
		apitest.Resource{Version: "v1", Plural: "pods", Kind: "Pod", Namespaced: true},
		apitest.Resource{Version: "apps/v1", Plural: "deployments", Kind: "Deployment", Namespaced: true})
}

// Component is one, named kcm, that serves what a function returns as its
// metrics; it refuses to serve nothing.
func Component(t *testing.T, metrics func() string) plane.Component {
	e := apitest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := metrics()
		if text == "" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, text)
	}))
	return plane.Component{Name: "kcm", MetricsURL: e.Server() + "/metrics", Scrape: e}
}

// HotQueue is a plane with a component whose queue gets 100 times rate items back
// a second.
func HotQueue(t *testing.T) (p *plane.Plane, rate *atomic.Int64) {
	t.Helper()
	rate = &atomic.Int64{}
	done, stopped := make(chan struct{}), make(chan struct{})
	var count atomic.Int64
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				count.Add(rate.Load())
			case <-done:
				tick.Stop()
				return
			}
		}
	}()
	t.Cleanup(func() { close(done); <-stopped })
	p = &plane.Plane{}
	err := p.Join(Component(t, func() string {
		return fmt.Sprintf("workqueue_depth{name=\"job\"} 0\nworkqueue_retries_total{name=\"job\"} %d\n", 100000+count.Load())
	}))
	if err != nil {
		t.Fatal(err)
	}
	rate.Store(1)
	return p, rate
}
