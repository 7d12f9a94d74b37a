package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/plane"
)

// newInspector inspects a server of the test as a plane of the run's own.
func newInspector(t *testing.T) (*Inspector, *flighttest.Server) {
	t.Helper()
	server, c := flighttest.NewServer(), clock.Start()
	client, err := wire.New(server.Endpoint(t), wire.Options{Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return New(Options{Clock: c, Own: true, Client: client}, ReadCPU(c, nil)), server
}

// addMaps gives a server so many configmaps.
func addMaps(s *flighttest.Server, n int) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	for i := range n {
		name := fmt.Sprint("a-", i)
		s.Change("ADDED", "/api/v1/namespaces/n-1/configmaps/"+name, map[string]any{"metadata": map[string]any{"name": name}})
	}
}

// metadata returns what a test changes of an object of the server.
func metadata(s *flighttest.Server, path string) map[string]any {
	return s.Objects[path]["metadata"].(map[string]any)
}

func TestTerminating(t *testing.T) {
	i, server := newInspector(t)
	addMaps(server, 2)
	server.Mu.Lock()
	metadata(server, "/api/v1/namespaces/n-1/configmaps/a-1")["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	metadata(server, "/api/v1/namespaces/n-1/configmaps/a-1")["finalizers"] = []string{"x/y"}
	server.Mu.Unlock()
	var s preflight.State
	i.AddTerminating(t.Context(), &s, nil, nil)
	if got := preflight.Sentence(preflight.Findings(s, preflight.State{})); got != "1 configmaps terminating, held by finalizer x/y (n-1/a-1)" {
		t.Errorf("%q", got)
	}
	refused := http.StatusInternalServerError
	server.Mu.Lock()
	server.Refuse = func(string, string) int { return refused }
	server.Mu.Unlock()
	s = preflight.State{}
	if i.AddTerminating(t.Context(), &s, nil, nil); len(s.Unread) != 4 { // configmaps, deployments, namespaces, pods
		t.Errorf("%q", s.Unread)
	}
	server.Mu.Lock()
	refused = http.StatusForbidden
	server.Mu.Unlock()
	s = preflight.State{}
	if i.AddTerminating(t.Context(), &s, nil, nil); len(s.Unread) != 0 {
		t.Errorf("what is not for us to read is held against the plane: %q", s.Unread)
	}
}

// TestLeftovers tells what an earlier run made from what the cluster has.
func TestLeftovers(t *testing.T) {
	i, server := newInspector(t)
	addMaps(server, 3)
	manage := func(path, manager string) {
		server.Mu.Lock()
		defer server.Mu.Unlock()
		metadata(server, path)["managedFields"] = []any{map[string]any{"manager": manager, "time": time.Now().UTC().Format(time.RFC3339)}}
	}
	manage("/api/v1/namespaces/n-1/configmaps/a-0", "windtunnel-load")
	manage("/api/v1/namespaces/n-1/configmaps/a-1", "kubectl")
	manage("/api/v1/namespaces/n-1/configmaps/a-2", "windtunnel-fleet")
	var s preflight.State
	i.AddLeftovers(t.Context(), &s)
	if got, want := preflight.Sentence(preflight.Findings(s, preflight.State{})), "2 configmaps left behind by an earlier run (n-1/a-0, n-1/a-2)"; got != want {
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
		server.Refuse = func(method, path string) int {
			if method != http.MethodPost {
				return 0
			}
			if fault { // it took effect all the same
				var lease map[string]any
				if err := json.Unmarshal([]byte(server.Bodies[method+" "+path]), &lease); err != nil {
					t.Error(err)
				}
				server.Change("ADDED", path+"/"+lease["metadata"].(map[string]any)["name"].(string), lease)
			}
			return code
		}
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

// TestALostProbeWriteIsDeleted gives up before the answer comes.
func TestALostProbeWriteIsDeleted(t *testing.T) {
	i, server := newInspector(t)
	server.Refuse = func(method, _ string) int {
		if method == http.MethodPost {
			time.Sleep(300 * time.Millisecond)
		}
		return 0
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var s preflight.State
	i.AddProbeWrites(ctx, &s)
	if left := server.Names(probePath); len(left) != 0 || len(s.Unread) != 1 || server.Count("DELETE ") != 1 {
		t.Errorf("%+v, and %v are still there", s, left)
	}
}

// TestAliveByTheServersClock tells a fleet that runs from one that is gone. The
// server's clock is an hour behind ours, or ahead of it.
func TestAliveByTheServersClock(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, 0, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			inspector := func() *Inspector { return New(Options{Clock: clock.Start()}, CPU{}) }
			at := func(ago time.Duration) time.Time { return time.Now().Add(off - ago) }
			if !inspector().alive(at(10*time.Second), at(time.Second)) {
				t.Errorf("%v: a fleet that runs is taken for one that is gone", off)
			}
			if inspector().alive(at(10*time.Minute), at(time.Second)) {
				t.Errorf("%v: a fleet that is gone is taken for one that runs", off)
			}
			if inspector().alive(time.Time{}, at(0)) {
				t.Errorf("%v: there is no fleet", off)
			}
			i := inspector() // whose leases are all that anybody writes, and move
			first := at(2 * time.Minute)
			i.alive(first, first.Add(5*time.Minute))
			time.Sleep(10 * time.Second)
			if !i.alive(first.Add(10*time.Second), first.Add(5*time.Minute)) {
				t.Errorf("%v: its leases move", off)
			}
			time.Sleep(2 * aliveWithin)
			if i.alive(first.Add(10*time.Second), first.Add(10*time.Second)) {
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
		written := func(path, manager string, at time.Time) {
			server.Objects[path] = map[string]any{"metadata": map[string]any{"name": path[strings.LastIndex(path, "/")+1:],
				"managedFields": []any{map[string]any{"manager": manager, "time": at.Format(time.RFC3339)}}}}
		}
		server.Mu.Lock()
		written("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver", "kube-apiserver", theirs)
		written("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-0", "windtunnel-fleet", theirs.Add(-ago))
		written("/api/v1/namespaces/default/configmaps/of-the-fleet", "windtunnel-fleet", theirs.Add(-ago))
		server.Mu.Unlock()
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
