// Package flighttest is what tests of package flight run against: a server with
// some resources, and a component with metrics.
package flighttest

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
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

// Retries is how many items have come back to a queue, by the clock: a busy machine loses
// none.
type Retries struct {
	clock clock.Clock
	mu    sync.Mutex
	rate  float64 // a second
	count float64 // until since
	since clock.Time
}

// SetRate has so many items a second come back from now on.
func (r *Retries) SetRate(rate float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	r.count += r.rate * now.Sub(r.since).Seconds()
	r.rate, r.since = rate, now
}

func (r *Retries) total() float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count + r.rate*r.clock.Now().Sub(r.since).Seconds()
}

// HotQueue is a plane with a component to whose queue 100 items come back a second.
func HotQueue(t *testing.T) (*plane.Plane, *Retries) {
	t.Helper()
	retries := &Retries{clock: clock.Start(), count: 100_000}
	retries.SetRate(100)
	p := &plane.Plane{}
	repotest.NoError(t, p.Join(Component(t, func() string {
		return fmt.Sprintf("workqueue_depth{name=\"job\"} 0\nworkqueue_retries_total{name=\"job\"} %.0f\n", retries.total())
	})))
	return p, retries
}
