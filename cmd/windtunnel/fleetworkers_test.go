package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// sharedNodes is a scenario with eleven nodes and a stage of config maps, which makes one
// and gets missing ones for a while.
const sharedNodes = `
scenario: nodes
namespaces: {count: 0}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: \"{{ .Name }}\", namespace: \"{{ .Namespace }}\"}}"}
fleet: {nodes: 11, rate: 1000, stages: [fast, own.yaml]}
steps:
- {name: one, create: {body: map, count: 5, pace: {constant: 100}}}
- {name: ask, expects: [404], requests: {for: $for, pace: {constant: 100}, mix: [{verb: get, resource: configmaps, namespace: default, name: none}]}}
objectives:
- {sli: call-latency, statistic: p99, max: 60s}
`

const ownStage = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: map-seen}
spec:
  resourceRef: {apiGroup: v1, kind: ConfigMap}
  selector: {matchExpressions: [{key: .data.seen, operator: DoesNotExist}]}
  steps:
  - patch: {root: data, template: 'seen: "yes"'}
`

// nodesOf are the nodes of a cluster.
func nodesOf(t *testing.T, kubeconfig string) (names []string) {
	t.Helper()
	e := repotest.Must(endpoint.FromKubeconfig(kubeconfig, ""))(t)
	client := repotest.Must(kubernetes.NewForConfig(e.Config("fleetworkers-test")))(t)
	list := repotest.Must(client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{}))(t)
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	return names
}

// startShared starts a run of the scenario with three fleet workers.
func startShared(t *testing.T, u *tunnel, kubeconfig, text string, flags ...string) (*exec.Cmd, *output, record.Dir) {
	t.Helper()
	for name, content := range map[string]string{"s.yaml": text, "own.yaml": ownStage} {
		repotest.NoError(t, os.WriteFile(filepath.Join(u.dir, name), []byte(content), 0o600))
	}
	args := []string{"run", "s.yaml", "--kubeconfig", kubeconfig, "--out", "run", "--worker-processes"}
	cmd, said := u.start(append(args, flags...)...)
	return cmd, said, record.Dir(filepath.Join(u.dir, "run"))
}

// fileOf is a file of a run, which holds JSON.
func fileOf[T any](t *testing.T, dir record.Dir, name string) (out T) {
	t.Helper()
	raw, err := dir.Read(name)
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	repotest.NoError(t, err)
	return out
}

func judgementOf(t *testing.T, dir record.Dir) slo.Judgement {
	t.Helper()
	return fileOf[slo.Judgement](t, dir, record.VerdictFile)
}

// calls counts a stream's calls by source and verb.
func callsIn(t *testing.T, dir record.Dir, name string) map[string]int {
	t.Helper()
	out := map[string]int{}
	if _, err := dir.ReadStream(name, func(s *record.Stream) record.Visitor {
		return record.Visitor{Call: func(v record.Call) {
			op := s.Ops[v.Op]
			out[op.Source+" "+op.Verb+" "+op.Resource]++
		}}
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// Nodes are made by the workers that they belong to, beside those that send the load and
// without them, and none is left.
func TestFleetWorkersHaveTheNodes(t *testing.T) {
	t.Parallel()
	for _, senders := range []int{0, 2} {
		u := newTunnel(t)
		kubeconfig := hollowCluster(t)
		cmd, said, dir := startShared(t, u, kubeconfig, strings.ReplaceAll(sharedNodes, "$for", "1s"), "--fleet-workers", "3", "--workers", fmt.Sprint(senders))
		if code := exitOf(cmd.Wait()); code != exitPass && code != exitUnknown { // a busy machine has its doubts
			t.Fatalf("exit code %d\n%s", code, said)
		}
		if own := callsIn(t, dir, record.StreamFile); own["fleet create nodes"] != 0 {
			t.Errorf("the leader made %d nodes", own["fleet create nodes"])
		}
		var made, played []int
		for i := range 3 {
			calls := callsIn(t, dir, record.WorkerFile(senders+i))
			made, played = append(made, calls["fleet create nodes"]), append(played, calls["fleet patch configmaps"])
		}
		if !slices.Equal(made, []int{4, 4, 3}) || !slices.Equal(played, []int{5, 0, 0}) {
			t.Errorf("the workers made %v nodes of 11, and played %v stages of 5 other things", made, played)
		}
		j := judgementOf(t, dir)
		if j.Measures["workers"].Value != float64(senders+3) || j.Measures["workers_lost"].Value != 0 {
			t.Errorf("measures %+v, %+v", j.Measures["workers"], j.Measures["workers_lost"])
		}
		summary, err := dir.Read(record.SummaryFile)
		if err != nil || !strings.Contains(string(summary), fmt.Sprint(senders+2, " fleet ")) {
			t.Errorf("the summary does not tell of them: %v\n%s", err, summary)
		}
		if left := nodesOf(t, kubeconfig); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

// A worker that is killed is missed by its nodes: the verdict says so, and they go with
// the others.
func TestAFleetWorkerDies(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	kubeconfig := hollowCluster(t)
	cmd, said, dir := startShared(t, u, kubeconfig, strings.ReplaceAll(sharedNodes, "$for", "5s"), "--fleet-workers", "3")
	repotest.Eventually(t, "its load begins", func() bool {
		n := 0
		_, _ = dir.ReadStream(record.StreamFile, func(*record.Stream) record.Visitor { // it may not be there yet
			return record.Visitor{Event: func(e record.Event) {
				if e.Type == record.EventLoadAsked && e.Name == "ask" {
					n++
				}
			}}
		})
		return n > 0
	})
	if n := len(nodesOf(t, kubeconfig)); n != 11 {
		t.Errorf("there are %d nodes", n)
	}
	repotest.NoError(t, syscall.Kill(workerProcess(t, u.bin, "1"), syscall.SIGKILL))
	if code := exitOf(cmd.Wait()); code != exitUnknown {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if why := strings.Join(judgementOf(t, dir).Reasons, " "); !strings.Contains(why, "One of 3 workers was lost: worker 1 was lost in step ask, and nobody kept its nodes alive.") {
		t.Errorf("reasons: %s", why)
	}
	if left := nodesOf(t, kubeconfig); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// workerProcess is the process of a worker.
func workerProcess(t *testing.T, bin, index string) int {
	t.Helper()
	return processOf(t, bin, "worker "+index, func(args []string) bool { return len(args) > 3 && args[1] == "worker" && args[3] == index })
}

// processOf is the process of a program whose arguments are those.
func processOf(t *testing.T, bin, what string, is func(args []string) bool) (pid int) {
	t.Helper()
	all := repotest.Must(filepath.Glob("/proc/[0-9]*"))(t)
	for _, dir := range all {
		raw, _ := os.ReadFile(filepath.Join(dir, "cmdline")) // it may have ended
		exe, _ := os.Readlink(filepath.Join(dir, "exe"))
		if exe != bin || !is(strings.Split(string(raw), "\x00")) {
			continue
		}
		if _, err := fmt.Sscan(filepath.Base(dir), &pid); err != nil {
			t.Fatal(err)
		}
		return pid
	}
	t.Fatalf("no process of %s", what)
	return 0
}

// On a real plane pods run on the nodes of every worker.
func TestFleetWorkersOnARealPlane(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	text := `
scenario: shared
fleet: {nodes: 6, rate: 1000}
bodies:
  app:
    text: |
      {apiVersion: apps/v1, kind: Deployment, metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}"},
       spec: {replicas: 30, selector: {matchLabels: {app: "{{ .Name }}"}}, template: {metadata: {labels: {app: "{{ .Name }}", windtunnel.dev/group: "{{ .Group }}"}},
        spec: {containers: [{name: c, image: i}]}}}}
steps:
- {name: apps, create: {body: app, count: 1, pace: {constant: 1}}}
- {name: run, wait: {pods: apps, are: running, count: 30, within: 2m}}
objectives:
- {sli: failed-calls, max: 0}
`
	repotest.NoError(t, os.WriteFile(filepath.Join(u.dir, "s.yaml"), []byte(text), 0o600))
	cmd, said := u.start("run", "s.yaml", "--out", "run", "--worker-processes", "--fleet-workers", "2")
	if code := exitOf(cmd.Wait()); code != exitPass && code != exitUnknown { // a busy machine has its doubts
		t.Fatalf("exit code %d\n%s", code, said)
	}
	dir, patched := record.Dir(filepath.Join(u.dir, "run")), 0
	for i := range 2 {
		calls := callsIn(t, dir, record.WorkerFile(i))
		if calls["fleet create nodes"] != 3 || calls["fleet patch pods"] == 0 {
			t.Errorf("worker %d: %v", i, calls)
		}
		patched += calls["fleet patch pods"]
	}
	if patched < 30 {
		t.Errorf("%d patches for 30 pods", patched)
	}
}

// What cannot be shared is said before anything is started.
func TestFleetsThatCannotBeShared(t *testing.T) {
	t.Parallel()
	bin := repotest.Binary(t)
	const shared = "scenario: x\nsubjects: [{name: edges, windtunnel: [edge-fleet], sharable: true}]\nsteps: [{pause: 1s}]\n"
	dir := t.TempDir()
	repotest.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(shared), 0o600))
	cmd := exec.CommandContext(t.Context(), bin, "run", "s.yaml", "--out", "run", "--worker-kubeconfig", "none", "--fleet-workers", "1")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); exitOf(err) != exitFault || !strings.Contains(string(out), "use --worker-processes") {
		t.Errorf("in pods: %v\n%s", err, out)
	}
	for name, tt := range map[string]struct{ text, workers, want string }{
		"none":        {"scenario: x\nsteps: [{pause: 1s}]\n", "2", "has no nodes that could be shared"},
		"few":         {"scenario: x\nfleet: {nodes: 2}\nsteps: [{pause: 1s}]\n", "3", "use --fleet-workers 2 or fewer"},
		"members":     {"scenario: x\nmembers: [{name: m, count: 2, kind: hollow}]\nsteps: [{pause: 1s}]\n", "3", "2 hollow members and 0 sharable subjects, and some workers would have none; use --fleet-workers 2 or fewer"},
		"a fault":     {"scenario: x\nsubjects: [{name: edges, windtunnel: [edge-fleet], sharable: true}]\nsteps:\n- {name: dark, fault: {component: edges, action: kill, for: 1s}}\n", "1", "edges is a worker's process"},
		"connections": {"scenario: x\nfleet: {nodes: 9, connections: 2}\nsteps: [{pause: 1s}]\n", "3", "fleet.connections: 2"},
		"disturbed":   {"scenario: x\nfleet: {nodes: 9}\nsteps:\n- {name: dark, fault: {nodes: {count: 1}, action: notready, for: 1s}}\n", "3", `s.yaml:4: step "dark"`},
	} {
		dir := t.TempDir()
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(tt.text), 0o600))
		cmd := exec.CommandContext(t.Context(), bin, "run", "s.yaml", "--out", "run", "--worker-processes", "--fleet-workers", tt.workers)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if exitOf(err) != exitFault || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v, want %q\n%s", name, err, tt.want, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "run")); err == nil {
			t.Errorf("%s: there is a run directory", name)
		}
	}
}
