package inspect

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// newInspector inspects a server of the test as a plane of the run's own.
func newInspector(t *testing.T) (*Inspector, *apitest.Server) {
	t.Helper()
	server, c := flighttest.NewServer(t), clock.Start()
	return New(Options{Clock: c, Own: true, Client: apitest.Client(t, server.Endpoint(), c)}, ReadCPU(c, nil)), server
}

// addMaps gives a server so many configmaps.
func addMaps(s *apitest.Server, n int) {
	for i := range n {
		s.Add(fmt.Sprint("/api/v1/namespaces/n-1/configmaps/a-", i), map[string]any{})
	}
}

// written stores an object that a manager wrote at a time.
func written(s *apitest.Server, path, manager string, at time.Time) {
	s.Add(path, map[string]any{"metadata": map[string]any{
		"managedFields": []any{map[string]any{"manager": manager, "time": at.UTC().Format(time.RFC3339)}}}})
}

func TestTerminating(t *testing.T) {
	i, server := newInspector(t)
	addMaps(server, 2)
	server.Add("/api/v1/namespaces/n-1/configmaps/a-1", map[string]any{"metadata": map[string]any{
		"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": []string{"x/y"}}})
	var s preflight.State
	i.AddTerminating(t.Context(), &s, nil, nil)
	if got := preflight.Sentence(preflight.Findings(s, preflight.State{})); got != "1 configmap terminating, held by finalizer x/y (n-1/a-1)" {
		t.Errorf("%q", got)
	}
	refuse := func(code int) {
		server.Inject(func(*http.Request) *apitest.Injection { return &apitest.Injection{Code: code} })
	}
	refuse(http.StatusInternalServerError)
	s = preflight.State{}
	if i.AddTerminating(t.Context(), &s, nil, nil); len(s.Unread) != 1 || !strings.HasPrefix(s.Unread[0], "4 of 4 resources could not be listed (configmaps, deployments.apps, namespaces, ...): list /api/v1/configmaps: ") {
		t.Errorf("%q", s.Unread)
	}
	refuse(http.StatusForbidden)
	s = preflight.State{}
	if i.AddTerminating(t.Context(), &s, nil, nil); len(s.Unread) != 0 {
		t.Errorf("what is not for us to read is held against the plane: %q", s.Unread)
	}
}

// TestLeftovers tells what an earlier run made from what the cluster has.
func TestLeftovers(t *testing.T) {
	i, server := newInspector(t)
	for i, manager := range []string{"windtunnel-load", "kubectl", "windtunnel-fleet"} {
		written(server, fmt.Sprint("/api/v1/namespaces/n-1/configmaps/a-", i), manager, time.Now())
	}
	var s preflight.State
	i.AddLeftovers(t.Context(), &s)
	if got, want := preflight.Sentence(preflight.Findings(s, preflight.State{})), "2 configmaps left behind by an earlier run (n-1/a-0, n-1/a-2); windtunnel clean --kubeconfig FILE deletes what killed runs left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if s.Terminating != nil || s.Unread != nil {
		t.Errorf("%+v", s)
	}
}

// metered is a component that serves these metrics.
func metered(t *testing.T, pid int, metrics *string) plane.Component {
	c := flighttest.Component(t, func() string { return *metrics })
	c.PID = pid
	return c
}

func TestFetchMetrics(t *testing.T) {
	metrics := "workqueue_depth{name=\"job\"} 3\n"
	text, err := fetchMetrics(t.Context(), metered(t, os.Getpid(), &metrics))
	if err != nil || preflight.ReadMetrics(text).Depth["job"] != 3 {
		t.Errorf("%v, %v", text, err)
	}
	metrics = ""
	if _, err := fetchMetrics(t.Context(), metered(t, os.Getpid(), &metrics)); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("a component that refuses: %v", err)
	}
}

func TestProbeWrites(t *testing.T) {
	i, server := newInspector(t)
	var s preflight.State
	i.AddProbeWrites(t.Context(), &s)
	if len(s.ProbeWrites) != probeWrites || slices.Min(s.ProbeWrites) <= 0 || len(server.Names(probePath)) != 0 {
		t.Errorf("%v, and %v are still there", s.ProbeWrites, server.Names(probePath))
	}
	i.Tolerate = []string{preflight.ProbeWrite}
	s = preflight.State{}
	if i.AddProbeWrites(t.Context(), &s); s.ProbeWrites != nil {
		t.Error("probe writes that nobody looks at")
	}
}

func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := New(Options{Clock: clock.Start()}, CPU{})
		look := func(after time.Duration, component string, counts map[string]float64) map[string]float64 {
			time.Sleep(after)
			return i.retryRates(component, counts)
		}
		if got := look(0, "kcm", map[string]float64{"a": 1e6}); got != nil {
			t.Errorf("known from one look: %v", got)
		}
		if got := look(minInterval/2, "kcm", map[string]float64{"a": 1e6}); got != nil {
			t.Errorf("known after no time: %v", got)
		}
		look(time.Second, "other", nil) // kcm could not be read
		if got := look(time.Second-minInterval/2, "kcm", map[string]float64{"a": 1e6 + 20, "b": 4}); got["a"] != 10 || got["b"] != 2 {
			t.Errorf("over two seconds: %v", got)
		}
		if got := look(minInterval/2, "kcm", map[string]float64{"a": 2e6}); got["a"] != 10 {
			t.Errorf("so soon the rate is the one before: %v", got)
		}
		if got := look(time.Second-minInterval/2, "kcm", map[string]float64{"a": 5}); got["a"] != 5 {
			t.Errorf("started again: %v", got)
		}
	})
}

// TestRefusedProbeWrites has leases that cannot be made: that is not for us to do,
// or it is a fault.
func TestRefusedProbeWrites(t *testing.T) {
	for code, fault := range map[int]bool{
		http.StatusForbidden: false, http.StatusNotFound: false, http.StatusTooManyRequests: true, http.StatusInternalServerError: true,
	} {
		i, server := newInspector(t)
		server.Inject(func(r *http.Request) *apitest.Injection {
			if r.Method != http.MethodPost {
				return nil
			}
			return &apitest.Injection{Code: code, Done: fault} // it took effect all the same
		})
		var s preflight.State
		i.AddProbeWrites(t.Context(), &s)
		if (len(s.Unread) == 1) != fault || s.ProbeWrites != nil {
			t.Errorf("%d: %+v", code, s)
		}
		if left := server.Names(probePath); len(left) != 0 {
			t.Errorf("%d: %v are still there", code, left)
		}
	}
}

// TestProbeWritesAreMarked lets no deletion through: what a run that is killed then leaves
// has the run's label.
func TestProbeWritesAreMarked(t *testing.T) {
	i, server := newInspector(t)
	i.Run = "r1"
	server.Inject(func(r *http.Request) *apitest.Injection {
		if r.Method == http.MethodDelete {
			return &apitest.Injection{Code: http.StatusInternalServerError}
		}
		return nil
	})
	i.AddProbeWrites(t.Context(), &preflight.State{})
	left := server.Objects(probePath)
	if len(left) == 0 {
		t.Fatal("nothing was made")
	}
	for _, o := range left {
		if o.GetLabels()[object.RunLabel] != "r1" {
			t.Errorf("%s has the labels %v", o.GetName(), o.GetLabels())
		}
	}
}

// TestALostProbeWriteIsDeleted gives up before the answer comes: of a write that was made
// by then, and of one that is made after it was deleted in vain.
func TestALostProbeWriteIsDeleted(t *testing.T) {
	for made, deletions := range map[bool]int{true: 1, false: 2} {
		t.Run(fmt.Sprint("made=", made), func(t *testing.T) {
			t.Parallel()
			i, server := newInspector(t)
			server.Inject(func(r *http.Request) *apitest.Injection {
				if r.Method != http.MethodPost {
					return nil
				}
				return &apitest.Injection{Done: made, Delay: 3 * time.Second}
			})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				repotest.Met(func() bool { return server.Count("POST ") == 1 && (!made || len(server.Names(probePath)) == 1) })
			}()
			var s preflight.State
			i.AddProbeWrites(ctx, &s)
			if left := server.Names(probePath); len(left) != 0 || len(s.Unread) != 1 || server.Count("DELETE ") != deletions {
				t.Errorf("%+v, %d deletions, and %v are still there", s, server.Count("DELETE "), left)
			}
		})
	}
}

// TestAliveByTheServersClock tells a fleet that runs from one that is gone. The
// server's clock is an hour behind ours, or ahead of it.
func TestAliveByTheServersClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			inspector := func() *Inspector { return New(Options{Clock: clock.Start()}, CPU{}) }
			at := func(ago time.Duration) time.Time { return time.Now().Add(off - ago) }
			if !inspector().isFleetAlive(at(10*time.Second), at(time.Second)) {
				t.Errorf("%v: a fleet that runs is taken for one that is gone", off)
			}
			if inspector().isFleetAlive(at(10*time.Minute), at(time.Second)) {
				t.Errorf("%v: a fleet that is gone is taken for one that runs", off)
			}
			if inspector().isFleetAlive(time.Time{}, at(0)) {
				t.Errorf("%v: there is no fleet", off)
			}
			i := inspector() // whose leases are all that anybody writes, and move
			first := at(2 * time.Minute)
			i.isFleetAlive(first, first.Add(5*time.Minute))
			time.Sleep(10 * time.Second)
			if !i.isFleetAlive(first.Add(10*time.Second), first.Add(5*time.Minute)) {
				t.Errorf("%v: its leases move", off)
			}
			time.Sleep(2 * aliveWithin)
			if i.isFleetAlive(first.Add(10*time.Second), first.Add(10*time.Second)) {
				t.Errorf("%v: its leases do not move any more", off)
			}
		})
	}
}

// TestResidueByTheServersClock has the node of a fleet that runs on a cluster
// whose clock is an hour behind ours, and then one whose fleet is gone.
func TestResidueByTheServersClock(t *testing.T) {
	for ago, left := range map[time.Duration]int{10 * time.Second: 0, 10 * time.Minute: 2} {
		i, server := newInspector(t)
		theirs := time.Now().UTC().Add(-time.Hour)
		written(server, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver", "kube-apiserver", theirs)
		written(server, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0", "windtunnel-fleet", theirs.Add(-ago))
		written(server, "/api/v1/namespaces/default/configmaps/of-the-fleet", "windtunnel-fleet", theirs.Add(-ago))
		i.served = []discovery.Resource{
			{Name: "leases.coordination.k8s.io", Root: "/apis/coordination.k8s.io/v1", Plural: "leases", Namespaced: true},
			{Name: "configmaps", Root: "/api/v1", Plural: "configmaps", Namespaced: true},
		}
		var s preflight.State
		if i.AddLeftovers(t.Context(), &s); len(s.Leftovers) != left || len(s.Unread) > 0 {
			t.Errorf("renewed %v ago: %+v", ago, s)
		}
	}
}
