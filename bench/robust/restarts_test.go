package robust_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
)

// restarts makes and deletes pods while API server and etcd are killed and stopped,
// one step of faults after the other, and holds still at its end until it is told to
// go on.
const restarts = `scenario: restarts
fleet: {nodes: 10, capacity: {cpu: 64, memory: 256Gi, pods: 500}}
namespaces: {count: 1}
bodies:
  pod:
    text: |
      apiVersion: v1
      kind: Pod
      metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}", labels: {app: x}}
      spec: {containers: [{name: c, image: none}]}
groups: [{name: all, selector: app=x}]
failedCalls: ignore
steps:
- name: storm
  parallel:
  - name: first
    create: {body: pod, count: %[1]d, pace: {constant: 5}, retry: {times: 10}}
  - sequence:
    - pause: 5s
    - name: second
      create: {body: pod, count: %[2]d, pace: {constant: 5}, retry: {times: 10}}
    - name: remove
      delete: {step: second, pace: {constant: 5}}
  - sequence:
%[3]s- name: quiet
  settle: {within: 2m}
- name: look
  exec: {command: [sh, -c, 'cp "$KUBECONFIG" "$HERE/kubeconfig.new" && mv "$HERE/kubeconfig.new" "$HERE/kubeconfig" && while [ ! -e "$HERE/go" ]; do sleep 0.2; done'], env: {HERE: '%[4]s'}}
`

// restartFaults draws faults: each of the four kinds in turn, with pauses of chance, and as
// long as chance wants. Lasts is about how long they take together.
func restartFaults(n int, chance *rand.Rand) (text string, lasts time.Duration) {
	kinds := []struct {
		component, action string
		most              float64 // seconds
	}{{"kube-apiserver", "kill", 2}, {"etcd", "pause", 3}, {"kube-apiserver", "pause", 4}, {"etcd", "kill", 2}}
	var out strings.Builder
	for i := range n {
		k := kinds[i%len(kinds)]
		pause, down := 500+chance.IntN(2500), 200+chance.IntN(int(1000*k.most))
		fmt.Fprintf(&out, "    - {fault: {component: %s, action: %s, for: %dms, hold: true}}\n    - pause: %dms\n", k.component, k.action, down, pause)
		lasts += time.Duration(pause+down) * time.Millisecond
	}
	return out.String(), lasts
}

// TestRestarts compares what the records say of pods with what etcd holds, after
// forty kills and stops of API server and etcd.
func TestRestarts(t *testing.T) {
	seed, faults := repotest.Robust(t), repotest.Times(t, "WINDTUNNEL_RESTARTS", 40)
	bin, dir := repotest.Binary(t), t.TempDir()
	file, out := filepath.Join(dir, "restarts.yaml"), filepath.Join(dir, "run")
	text, lasts := restartFaults(faults, rand.New(rand.NewPCG(seed, 4)))
	pods := int(5 * lasts.Seconds()) // at their pace they come as long as the faults do
	repotest.NoError(t, os.WriteFile(file, fmt.Appendf(nil, restarts, pods, pods/3, text, dir), 0o600))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, bin, "run", file, "--out", out)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	ended := make(chan string, 1)
	go func() {
		said, err := c.CombinedOutput()
		ended <- fmt.Sprintf("%v\n%s", err, said)
	}()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	for waiting := true; waiting; {
		select {
		case said := <-ended:
			t.Fatalf("the run ended before its last step: %s", said)
		case <-time.After(time.Second):
			_, err := os.Stat(kubeconfig)
			waiting = err != nil
		}
	}
	there := podsOf(t, kubeconfig)
	repotest.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	said := <-ended
	r := readPods(t, filepath.Join(out, record.StreamFile))
	for _, fault := range r.agree(there, pods/20) {
		t.Error(fault)
	}
	if r.faults != faults {
		t.Errorf("%d faults, want %d", r.faults, faults)
	}
	t.Logf("%d faults: %d pods created, %d left, of %d attempts to create one", r.faults, len(r.phases), len(there), r.attempts)
	if t.Failed() {
		t.Log(said)
	}
}

// pod is what etcd holds of a pod.
type pod struct {
	Metadata struct{ Name, UID string }
	Status   struct{ Phase string }
}

// podsOf lists the pods of the run.
func podsOf(t *testing.T, kubeconfig string) map[string]pod {
	t.Helper()
	e := repotest.Must(endpoint.FromKubeconfig(kubeconfig, ""))(t)
	c := apitest.Client(t, e, clock.Start())
	var list object.List[pod]
	r, err := c.Do(t.Context(), &wire.Request{Method: "GET", Path: "/api/v1/pods?labelSelector=app%3Dx"})
	if err == nil && !r.Success() {
		err = r.Refusal()
	}
	if err = errors.Join(err, json.Unmarshal(r.Body, &list)); err != nil {
		t.Fatal(err)
	}
	out := map[string]pod{}
	for _, p := range list.Items {
		out[p.Metadata.UID] = p
	}
	return out
}

// agree returns on what records and etcd do not agree: what was created, what is left, and
// what runs. Where hardly any pods were, they agree on nothing.
func (r recorded) agree(there map[string]pod, least int) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for uid, seen := range r.phases {
		if _, left := there[uid]; slices.Contains(seen, record.PhaseDeleted) == left {
			fault("pod %s: the records say %v, and etcd holds it: %v", uid, seen, left)
		}
	}
	for uid, p := range there {
		seen := r.phases[uid]
		if !slices.Contains(seen, record.PhaseCreated) || p.Status.Phase == "Running" != slices.Contains(seen, record.PhaseRunning) {
			fault("pod %s is %s, and the records say %v", p.Metadata.Name, p.Status.Phase, seen)
		}
	}
	if r.created != len(r.phases) {
		fault("%d creations are recorded as done, and %d pods were seen", r.created, len(r.phases))
	}
	if deleted := len(r.phases) - len(there); len(there) < least || deleted < least {
		fault("%d pods are left and %d were deleted, want at least %d of each", len(there), deleted, least)
	}
	return faults
}

// TestFewPodsAgreeOnNothing: without pods there is nothing that records and etcd agree on.
func TestFewPodsAgreeOnNothing(t *testing.T) {
	left := map[string]pod{"a": {}}
	left["a"] = pod{Status: struct{ Phase string }{"Running"}}
	lived := []string{record.PhaseCreated, record.PhaseRunning}
	both := recorded{created: 2, phases: map[string][]string{"a": lived, "b": append(lived, record.PhaseDeleted)}}
	if faults := both.agree(left, 1); len(faults) > 0 {
		t.Errorf("of two pods: %q", faults)
	}
	if faults := (recorded{}).agree(nil, 1); len(faults) != 1 {
		t.Errorf("of no pods: %q", faults)
	}
	if faults := both.agree(nil, 0); len(faults) != 1 {
		t.Errorf("of a pod that etcd has lost: %q", faults)
	}
}

// recorded is what the records say of pods until the last step.
type recorded struct {
	phases            map[string][]string // by UID
	created, attempts int                 // calls of the load
	faults            int
}

func readPods(t *testing.T, records string) recorded {
	t.Helper()
	out, looked := recorded{phases: map[string][]string{}}, false
	repotest.Must(record.Read(records, func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Event: func(e record.Event) {
				looked = looked || e.Type == record.EventStepBegan && e.Name == "look"
				if e.Type == record.EventFault && (strings.HasPrefix(e.Text, "kill") || strings.HasPrefix(e.Text, "pause")) {
					out.faults++
				}
			},
			Call: func(c record.Call) {
				if op := s.Ops[c.Op]; op.Source == "load" && op.Verb == "create" && op.Resource == "pods" {
					if out.attempts++; c.Outcome == record.OK || c.Reached {
						out.created++
					}
				}
			},
			Phase: func(p record.Phase) {
				if o := s.Objects[p.Object]; o.Resource == "pods" && !looked {
					out.phases[o.UID] = append(out.phases[o.UID], p.Phase)
				}
			},
		}
	}))(t)
	return out
}
