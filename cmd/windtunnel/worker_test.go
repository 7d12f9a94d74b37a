package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/fly/share/leader"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

const sharedScenario = `
scenario: shared
namespaces: {count: 0}
bodies:
  map:
    text: |
      {apiVersion: v1, kind: ConfigMap, metadata: {name: "{{ .Name }}", namespace: "{{ .Namespace }}"}, data: {a: "{{ randAlpha 10 }}"}}
  patch: {text: "data: {c: x}"}
steps:
- {name: fill, create: {body: map, count: 300, pace: {constant: 300}}}
- {name: mix, requests: {for: 1s, pace: {poisson: 300}, mix: [{verb: get, of: fill, pick: random, weight: 3}, {verb: patch, of: fill, body: patch}]}}
- {name: turn, churn: {step: fill, percent: 30, cycles: 2, pace: {constant: 300}}}
- {name: put, update: {step: fill, method: put, first: 90, pace: {constant: 300}}}
- {name: gone, delete: {step: fill, pace: {constant: 300}}}
objectives:
- {sli: call-latency, statistic: p99, max: 60s}
- {sli: failed-calls, max: 0}
`

// hollowCluster serves one in this process and returns its kubeconfig.
func hollowCluster(t *testing.T) string {
	t.Helper()
	server := repotest.Must(hollow.New(hollow.Options{}))(t)
	t.Cleanup(func() { _ = server.Close() })
	c := repotest.Must(server.Cluster("one"))(t)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, endpoint.WriteContexts(path, "one", map[string]endpoint.Endpoint{"one": c.Endpoint()}))
	return path
}

// flown runs the scenario with so many workers, 0 for none, and returns its directory.
func flown(t *testing.T, bin, kubeconfig string, workers int) record.Dir {
	t.Helper()
	dir := t.TempDir()
	repotest.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(sharedScenario), 0o600))
	args := []string{"run", "s.yaml", "--kubeconfig", kubeconfig, "--out", "run"} // relative, as people have it
	if workers > 0 {
		args = append(args, "--workers", strconv.Itoa(workers), "--worker-processes")
	}
	c := exec.CommandContext(t.Context(), bin, args...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		var verdict *exec.ExitError
		if !asExit(err, &verdict) || verdict.ExitCode() != exitUnknown { // a busy machine has its doubts
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return record.Dir(filepath.Join(dir, "run"))
}

func asExit(err error, into **exec.ExitError) (ok bool) {
	*into, ok = err.(*exec.ExitError) //nolint:errorlint // exec returns it as it is
	return ok
}

// ended reads the ends of a stream's calls of the load.
func ended(t *testing.T, d record.Dir, name string, each func(op record.Op, v record.Call)) {
	t.Helper()
	repotest.Must(d.ReadStream(name, func(s *record.Stream) record.Visitor {
		return record.Visitor{Call: func(v record.Call) {
			if op := s.Ops[v.Op]; op.Source == "load" && op.Step != "namespaces" {
				each(op, v)
			}
		}}
	}))(t)
}

// Four processes send what one sends: every call once, as far from the others as one
// sender has it, and the verdict's quantile is that of all calls.
func TestWorkersSendWhatOneSends(t *testing.T) {
	t.Parallel()
	bin := repotest.Binary(t)
	kubeconfig := hollowCluster(t)
	var single []string
	ended(t, flown(t, bin, kubeconfig, 0), record.StreamFile, func(op record.Op, v record.Call) {
		single = append(single, fmt.Sprint(op.Step, op.Verb, op.Resource, v.Code))
	})
	slices.Sort(single)
	for _, n := range []int{1, 4} {
		d := flown(t, bin, kubeconfig, n)
		var all []string
		var latencies []time.Duration
		seen := map[string]int{}
		for i := range n {
			ended(t, d, record.WorkerFile(i), func(op record.Op, v record.Call) {
				all = append(all, fmt.Sprint(op.Step, op.Verb, op.Resource, v.Code))
				latencies = append(latencies, v.Latency())
				if (int(v.Number)-1)%n != i {
					t.Errorf("worker %d of %d sent call %d of %s", i, n, v.Number, op.Step)
				}
				seen[fmt.Sprint(op.Step, op.Verb, v.Number)]++
			})
		}
		slices.Sort(all)
		if !slices.Equal(all, single) {
			t.Errorf("%d workers sent %d calls, one sender %d", n, len(all), len(single))
		}
		for which, times := range seen {
			if most := map[bool]int{true: 2, false: 1}[len(which) > 4 && which[:4] == "turn"]; times > most {
				t.Errorf("%s was sent %d times", which, times)
			}
		}
		slices.Sort(latencies)
		checkQuantile(t, d, latencies)
		checkNothingLeft(t, d, n)
	}
}

// checkQuantile holds the verdict's p99 against the raw calls.
func checkQuantile(t *testing.T, d record.Dir, sorted []time.Duration) {
	t.Helper()
	var j slo.Judgement
	raw, err := d.Read(record.VerdictFile)
	if err == nil {
		err = json.Unmarshal(raw, &j)
	}
	repotest.NoError(t, err)
	at := slices.IndexFunc(j.Objectives, func(r slo.Result) bool { return r.SLI == "call-latency" })
	want := sorted[(99*len(sorted)+99)/100-1].Seconds()
	if r := j.Objectives[max(0, at)]; at < 0 || r.Value == nil || math.Abs(*r.Value-want) > 1e-9 || r.Samples != len(sorted) {
		t.Errorf("p99 of call latency %+v, of all %d calls it is %v", j.Objectives, len(sorted), want)
	}
	lost, unknown := j.Measures["workers_lost"].Value, j.Measures["worker_calls_unknown"].Value
	if lost != 0 || unknown != 0 || j.Measures["workers"].Value == 0 {
		t.Errorf("measures: %v lost, %v calls unknown", lost, unknown)
	}
	t.Logf("start skew p99 %v s, clock bound %v s", j.Measures["worker_start_skew_p99_seconds"].Value, j.Measures["worker_clock_bound_max_seconds"].Value)
}

// checkNothingLeft looks for what only a run under way has.
func checkNothingLeft(t *testing.T, d record.Dir, workers int) {
	t.Helper()
	entries := repotest.Must(os.ReadDir(d.File(record.WorkersFolder)))(t)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.SortFunc(names, cmp.Compare)
	if len(names) != workers {
		t.Errorf("the folder of the workers has %v", names)
	}
}

func TestWorkersAreAskedForWhole(t *testing.T) {
	for _, tt := range []struct {
		flags workerFlags
		ok    bool
	}{
		{workerFlags{}, true},
		{workerFlags{processes: true}, false},
		{workerFlags{access: "file"}, false},
		{workerFlags{Settings: leader.Settings{Workers: 1}, access: "file"}, true},
		{workerFlags{Settings: leader.Settings{Workers: 1}, access: "file", processes: true}, false},
		{workerFlags{Settings: leader.Settings{Workers: 1}, access: "file", print: true}, false},
	} {
		if err := tt.flags.checkFlags(); (err == nil) != tt.ok {
			t.Errorf("%+v: %v", tt.flags, err)
		}
	}
	some := workerFlags{}
	some.Workers = 2
	if some.checkFlags() == nil {
		t.Error("workers that are nowhere were taken")
	}
}

// A run of workers ends early when its scenario says so, though the calls are others',
// and says meanwhile where they stand.
func TestAbortOnWithWorkers(t *testing.T) {
	t.Parallel()
	u := newTunnel(t)
	text := `
scenario: abort
namespaces: {count: 0}
abortOn: {failedCalls: 300, for: 10s}
steps:
- {name: ask, requests: {for: 10m, pace: {constant: 60}, mix: [{verb: get, resource: configmaps, namespace: default, name: none}]}}
`
	repotest.NoError(t, os.WriteFile(filepath.Join(u.dir, "s.yaml"), []byte(text), 0o600))
	cmd, said := u.start("run", "s.yaml", "--kubeconfig", hollowCluster(t), "--out", "run", "--workers", "2", "--worker-processes")
	dir := record.Dir(filepath.Join(u.dir, "run"))
	repotest.Eventually(t, "its status tells of the workers' calls", func() bool {
		var s record.Status
		raw, err := dir.Read(record.StatusFile)
		return err == nil && json.Unmarshal(raw, &s) == nil && s.Step == "ask" && s.Done > 0 && s.Failed > 0 && s.Requested == 60
	})
	if code := exitOf(cmd.Wait()); code != exitFail {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if why := strings.Join(judgementOf(t, dir).Reasons, " "); !strings.Contains(why, "calls failed (failedCalls: 300)") {
		t.Errorf("reasons: %s", why)
	}
}

// TestAKilledRunOfWorkersLeavesNoSecrets kills a run: neither the run directory nor the
// folder for temporary files has what its workers found their leader and the plane by.
func TestAKilledRunOfWorkersLeavesNoSecrets(t *testing.T) {
	u := newTunnel(t)
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	text := `
scenario: killed
namespaces: {count: 0}
steps:
- {name: ask, requests: {for: 10m, pace: {constant: 20}, mix: [{verb: get, resource: configmaps, namespace: default, name: none}]}}
`
	u.write(map[string]string{"s.yaml": text})
	cmd, _ := u.start("run", "s.yaml", "--kubeconfig", hollowCluster(t), "--out", "run", "--workers", "2", "--worker-processes")
	dir := record.Dir(filepath.Join(u.dir, "run"))
	repotest.Eventually(t, "the workers send", func() bool {
		var s record.Status
		raw, err := dir.Read(record.StatusFile)
		return err == nil && json.Unmarshal(raw, &s) == nil && s.Step == "ask" && s.Done > 0
	})
	repotest.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	u.nothingLeft()
	repotest.Eventually(t, "the temporary files are gone", func() bool {
		left, err := filepath.Glob(filepath.Join(temporary, "windtunnel-*"))
		return err == nil && len(left) == 0
	})
	err := filepath.WalkDir(string(dir), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		if bytes.Contains(raw, []byte(`"token":`)) || bytes.Contains(raw, []byte("PRIVATE KEY")) || bytes.Contains(raw, []byte("kind: Config")) {
			t.Errorf("%s has a secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
