package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// sharedMembers has seven hollow members in two groups, one of which plays a stage of a
// file, and asks all of them for a while.
const sharedMembers = `
scenario: members
namespaces: {count: 0}
members:
- {name: near, count: 2, kind: hollow}
- {name: far, count: 5, kind: hollow, stages: [own.yaml]}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Name }}\"}}"}
steps:
- {name: fill, cluster: "*", create: {body: map, count: 2, namespace: default, pace: {constant: 100}}}
- {name: played, cluster: far, wait: {objects: configmaps, count: 2, condition: "has(self.data) && self.data.seen == 'yes'", within: 1m}}
- {name: ask, cluster: "*", requests: {for: $for, pace: {constant: 70}, mix: [{verb: list, resource: configmaps, namespace: default}]}}
`

// failing are the members that a step's calls could not reach.
func failing(t *testing.T, dir record.Dir, step string) []string {
	t.Helper()
	out := map[string]bool{}
	if _, err := dir.ReadStream(record.StreamFile, func(s *record.Stream) record.Visitor {
		return record.Visitor{Call: func(v record.Call) {
			if op := s.Ops[v.Op]; op.Step == step && v.Outcome != record.OK {
				out[op.Cluster] = true
			}
		}}
	}); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(out))
}

// Hollow members are shared by the workers, number i being worker i mod M's; those of a
// worker that is lost are gone, and the others answer as before.
func TestFleetWorkersAreTheHollowMembers(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	kubeconfig := hollowCluster(t)
	cmd, said, dir := startShared(t, u, kubeconfig, strings.ReplaceAll(sharedMembers, "$for", "8s"), "--fleet-workers", "3")
	repotest.Eventually(t, "members are asked", func() bool { return stepBegan(dir, "ask") })
	repotest.NoError(t, syscall.Kill(workerProcess(t, u.bin, "1"), syscall.SIGKILL))
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if got := failing(t, dir, "fill"); len(got) > 0 {
		t.Errorf("objects could not be made in %v", got)
	}
	if got := failing(t, dir, "ask"); !slices.Equal(got, []string{"far-3", "near-2"}) {
		t.Errorf("worker 1 was lost, and with it %v", got)
	}
	if why := strings.Join(judgementOf(t, dir).Reasons, " "); !strings.Contains(why, "worker 1 was lost in step ask, and nobody kept its hollow members alive.") {
		t.Errorf("reasons: %s", why)
	}
	if m := manifestOf(t, dir); len(m.Members) != 2 || m.Members[0].Workers != 3 || m.Members[1].Workers != 3 {
		t.Errorf("the manifest says of members: %+v", m.Members)
	}
}

func manifestOf(t *testing.T, dir record.Dir) record.Manifest {
	t.Helper()
	return fileOf[record.Manifest](t, dir, record.ManifestFile)
}

// stepBegan tells whether a step has begun.
func stepBegan(dir record.Dir, step string) (begun bool) {
	_, _ = dir.ReadStream(record.StreamFile, func(*record.Stream) record.Visitor { // it may not be there yet
		return record.Visitor{Event: func(e record.Event) {
			begun = begun || e.Type == record.EventStepBegan && e.Name == step
		}}
	})
	return begun
}

// sharedEdges has a hub and three processes of edges, which are the workers'.
const sharedEdges = `
scenario: edges
namespaces: {count: 0}
subjects:
- name: edge-hub
  windtunnel: [edge-hub, "--listen=127.0.0.1:$(METRICS_PORT)", --name=hub-1]
  metrics: {port: 0}
  ready: {http: "http://127.0.0.1:$(METRICS_PORT)/readyz"}
- name: edge-fleet
  count: 3
  sharable: true
  windtunnel: [edge-fleet, "--listen=127.0.0.1:$(METRICS_PORT)", --edges=10, --shard=$(INDEX)/3, --nodes=false, --certificates=shared]
  metrics: {port: 0}
  ready: {http: "http://127.0.0.1:$(METRICS_PORT)/connected"}
steps:
- {name: rest, pause: $for}
objectives:
- {name: connected, query: 'sum(edge_fleet_connections{state="connected"})', min: 10}
`

// edgeProcess is the process of a share of the edges, and its parent.
func edgeProcess(t *testing.T, bin, shard string) (pid, parent int) {
	t.Helper()
	pid = processOf(t, bin, "the edges "+shard, func(args []string) bool {
		return len(args) > 1 && args[1] == "edge-fleet" && slices.Contains(args, "--shard="+shard)
	})
	stat := repotest.Must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))(t)
	var state string
	if _, err := fmt.Sscan(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), &state, &parent); err != nil {
		t.Fatal(err)
	}
	return pid, parent
}

// Processes of hollow edges are the workers', each edge in one of them, and end with them.
func TestFleetWorkersHaveTheEdges(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, said, dir := startShared(t, u, hollowCluster(t), strings.ReplaceAll(sharedEdges, "$for", "8s"), "--fleet-workers", "2")
	repotest.Eventually(t, "edges rest", func() bool { return stepBegan(dir, "rest") })
	for shard, worker := range map[string]string{"1/3": "0", "2/3": "1", "3/3": "0"} {
		if _, parent := edgeProcess(t, u.bin, shard); parent != workerProcess(t, u.bin, worker) {
			t.Errorf("edges %s are not those of worker %s", shard, worker)
		}
	}
	if code := exitOf(cmd.Wait()); code != exitPass && code != exitUnknown { // a busy machine has its doubts
		t.Fatalf("exit code %d\n%s", code, said)
	}
	for _, r := range judgementOf(t, dir).Objectives {
		if r.Value == nil || *r.Value != 10 {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
	var whose []string
	for _, s := range manifestOf(t, dir).Subjects {
		if s.Worker != nil {
			whose = append(whose, fmt.Sprint(s.Name, " ", *s.Worker))
		}
	}
	if want := []string{"edge-fleet-1 0", "edge-fleet-2 1", "edge-fleet-3 0"}; !slices.Equal(whose, want) {
		t.Errorf("the manifest says that they are %v", whose)
	}
}

// A worker's subject that dies ends the run, by its name.
func TestASubjectOfAWorkerDies(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	cmd, said, dir := startShared(t, u, hollowCluster(t), strings.ReplaceAll(sharedEdges, "$for", "1m"), "--fleet-workers", "2")
	repotest.Eventually(t, "edges rest", func() bool { return stepBegan(dir, "rest") })
	pid, _ := edgeProcess(t, u.bin, "2/3")
	repotest.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if why := strings.Join(judgementOf(t, dir).Reasons, " "); !strings.Contains(why, "edge-fleet-2 died") {
		t.Errorf("reasons: %s", why)
	}
}
