package flighttest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/plane"
)

// Component is one, named kcm, that serves what a function returns as its
// metrics; it refuses to serve nothing.
func Component(t *testing.T, metrics func() string) plane.Component {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		text := metrics()
		if text == "" {
			w.WriteHeader(http.StatusForbidden)
		}
		fmt.Fprint(w, text)
	}))
	t.Cleanup(server.Close)
	return plane.Component{Name: "kcm", MetricsURL: server.URL + "/metrics", Scrape: over(server)}
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
