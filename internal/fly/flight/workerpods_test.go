package flight

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// workersHost is a cluster of which the kinds are shown that a Job of workers is made of.
func workersHost(t *testing.T) *apitest.Server {
	return apitest.New(t,
		apitest.Resource{Version: "batch/v1", Plural: "jobs", Kind: "Job", Namespaced: true},
		apitest.Resource{Version: "coordination.k8s.io/v1", Plural: "leases", Kind: "Lease", Namespaced: true},
		apitest.Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true},
	)
}

// podCrew makes a Job of workers on a host that has no node for them.
func podCrew(t *testing.T, server *apitest.Server) *workerGroup {
	t.Helper()
	b := newBench(t, head(1)+"- {pause: 1ms}\n")
	b.options.Workers = WorkerSettings{Workers: 2, Pods: &Pods{Namespace: "default", Image: "windtunnel", CPU: "100m", Memory: "64Mi"}}
	c := &workerGroup{run: b.run, leaving: make(chan struct{})}
	var err error
	if c.leader, err = protocol.Lead(protocol.Options{Workers: 2, Clock: b.clock, Folder: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.leader.Close() })
	if c.host, err = newHost(server.Endpoint(), b.id); err != nil {
		t.Fatal(err)
	}
	if err := c.host.holdLease(t.Context(), server.Endpoint(), b.run); err != nil {
		t.Fatal(err)
	}
	if err := c.startPods(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCleanKnowsTheWorkersOfAKilledLeader finds Job, Secret and lease on the workers' host by
// the label of the run, and deletes them.
func TestCleanKnowsTheWorkersOfAKilledLeader(t *testing.T) {
	server := workersHost(t)
	c := podCrew(t, server)
	client := apitest.Client(t, server.Endpoint(), c.run.clock)
	found, _, err := cleanup.Find(t.Context(), client, c.run.id)
	var names []string
	for _, f := range found {
		names = append(names, f.String())
	}
	id := c.run.id
	want := []string{"jobs.batch default/windtunnel-" + id, "leases.coordination.k8s.io default/windtunnel-run-" + id, "secrets default/windtunnel-" + id}
	if err != nil || !slices.Equal(names, want) {
		t.Fatalf("found %v, %v, want %v", names, err, want)
	}
	if made, others := cleanup.Prove(found, nil); len(made) != 3 {
		t.Errorf("not proved: %v", others)
	}
	c.host.stop() // the leader is gone; nobody collects the garbage here
	server.Remove("/api/v1/namespaces/default/secrets/windtunnel-" + id)
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute, Orphaned: true}).Sweep(t.Context(), id, nil); err != nil {
		t.Error(err)
	}
	if left, _, _ := cleanup.Find(t.Context(), client, id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := c.host.close(); err != nil {
		t.Error(err)
	}
	c.wait.Wait()
}

// TestWorkersLeaveNoLease ends a run: the host has neither Job nor lease then.
func TestWorkersLeaveNoLease(t *testing.T) {
	server := workersHost(t)
	c := podCrew(t, server)
	c.host.stop()
	if err := c.host.close(); err != nil {
		t.Error(err)
	}
	c.wait.Wait()
	found, _, err := cleanup.Find(t.Context(), apitest.Client(t, server.Endpoint(), c.run.clock), c.run.id)
	found = slices.DeleteFunc(found, func(f cleanup.Found) bool { return strings.HasPrefix(f.String(), "secrets ") }) // nobody collects the garbage here
	if err != nil || len(found) > 0 {
		t.Errorf("left: %v, %v", found, err)
	}
}

// TestEachWorkerHasAnAccessFileOfItsOwn writes those of two workers: neither holds what the
// other one joins with.
func TestEachWorkerHasAnAccessFileOfItsOwn(t *testing.T) {
	c := podCrew(t, workersHost(t))
	c.host.stop()
	c.wait.Wait()
	all := c.leader.Access().Tokens
	folder := t.TempDir()
	if err := c.tellAccess(filepath.Join(folder, "access.json")); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"access-0.json", "access-1.json"} {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(raw), all[i]) || strings.Contains(string(raw), all[1-i]) {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
	}
	if err := c.tellAccess(filepath.Join(folder, "access.json")); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that is there is written over: %v", err)
	}
}
