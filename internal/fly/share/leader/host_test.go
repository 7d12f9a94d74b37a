package leader

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/repotest"
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

// podWorkers makes a Job of workers on a host that has no node for them.
func podWorkers(t *testing.T, server *apitest.Server) *Workers {
	t.Helper()
	w := New(Run{
		ID: "abcdefghij", Settings: Settings{Workers: 2, Pods: &Pods{Namespace: "default", Image: "windtunnel", CPU: "100m", Memory: "64Mi"}},
		Clock: clock.Start(), Warn: func(text string) { t.Error(text) },
	})
	var err error
	if w.leader, err = protocol.Lead(protocol.Options{Workers: 2, Clock: w.run.Clock, Folder: t.TempDir()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.leader.Close() })
	if w.host, err = newHost(server.Endpoint(), w.run.ID); err != nil {
		t.Fatal(err)
	}
	repotest.NoError(t, w.host.holdLease(t.Context(), server.Endpoint(), w.run))
	repotest.NoError(t, w.startPods(t.Context()))
	return w
}

// TestCleanKnowsTheWorkersOfAKilledLeader finds Job, Secret and lease on the workers' host by
// the label of the run, and deletes them.
func TestCleanKnowsTheWorkersOfAKilledLeader(t *testing.T) {
	server := workersHost(t)
	w := podWorkers(t, server)
	client := apitest.Client(t, server.Endpoint(), w.run.Clock)
	found, _, err := cleanup.Look{Client: client, Run: w.run.ID}.Find(t.Context())
	var names []string
	for _, f := range found {
		names = append(names, f.String())
	}
	id := w.run.ID
	want := []string{"jobs.batch default/windtunnel-" + id, "leases.coordination.k8s.io default/windtunnel-run-" + id, "secrets default/windtunnel-" + id}
	if err != nil || !slices.Equal(names, want) {
		t.Fatalf("found %v, %v, want %v", names, err, want)
	}
	if made, others := cleanup.Prove(found, nil); len(made) != 3 {
		t.Errorf("not proved: %v", others)
	}
	w.host.stop() // the leader is gone; nobody collects the garbage here
	server.Remove("/api/v1/namespaces/default/secrets/windtunnel-" + id)
	if err := (cleanup.Sweeper{Client: client, Within: time.Minute, Orphaned: true}).Sweep(t.Context(), id, nil); err != nil {
		t.Error(err)
	}
	if left, _, _ := (cleanup.Look{Client: client, Run: id}).Find(t.Context()); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := w.host.close(); err != nil {
		t.Error(err)
	}
	w.wait.Wait()
}

// TestWorkersLeaveNoLease ends a run: the host has neither Job nor lease then.
func TestWorkersLeaveNoLease(t *testing.T) {
	server := workersHost(t)
	w := podWorkers(t, server)
	w.host.stop()
	if err := w.host.close(); err != nil {
		t.Error(err)
	}
	w.wait.Wait()
	found, _, err := cleanup.Look{Client: apitest.Client(t, server.Endpoint(), w.run.Clock), Run: w.run.ID}.Find(t.Context())
	found = slices.DeleteFunc(found, func(f cleanup.Found) bool { return strings.HasPrefix(f.String(), "secrets ") }) // nobody collects the garbage here
	if err != nil || len(found) > 0 {
		t.Errorf("left: %v, %v", found, err)
	}
}

// TestEachWorkerHasAnAccessFileOfItsOwn writes those of two workers: neither holds what the
// other one joins with.
func TestEachWorkerHasAnAccessFileOfItsOwn(t *testing.T) {
	w := podWorkers(t, workersHost(t))
	w.host.stop()
	w.wait.Wait()
	all := []string{w.leader.Access(0).Token, w.leader.Access(1).Token}
	folder := t.TempDir()
	repotest.NoError(t, w.tellAccess(filepath.Join(folder, "access.json")))
	for i, name := range []string{"access-0.json", "access-1.json"} {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || !strings.Contains(string(raw), all[i]) || strings.Contains(string(raw), all[1-i]) {
			t.Errorf("%s: %s, %v", name, raw, err)
		}
		if got := len(raw) * maxWorkerPods; got > 1<<20 {
			t.Errorf("the Secret of %d workers has %d bytes, more than a Secret may have", maxWorkerPods, got)
		}
	}
	if err := w.tellAccess(filepath.Join(folder, "access.json")); !errors.Is(err, os.ErrExist) {
		t.Errorf("a file that is there is written over: %v", err)
	}
}
