package accuracy_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/parquet"
	"github.com/windtunnel/windtunnel/internal/opinion/judge"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Children do one thing to a run directory, so that its time and memory can be
// told from those of writing it.
const (
	doVar = "WINDTUNNEL_BIG_DO" // judge, parquet
	onVar = "WINDTUNNEL_BIG_ON" // the run directory
)

func TestMain(m *testing.M) {
	if os.Getenv(doVar) != "" {
		os.Exit(child(os.Getenv(doVar), os.Getenv(onVar)))
	}
	os.Exit(m.Run())
}

// cost is what a child says of itself.
type cost struct {
	Wall    time.Duration
	PeakRSS int64 // bytes
	Verdict slo.Verdict
}

func child(do, run string) int {
	watch := clock.Start()
	var c cost
	switch do {
	case "judge":
		j, err := judge.Write(run)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		c.Verdict = j.Verdict
	case "parquet":
		if _, err := parquet.Write(run, filepath.Join(run, "tables")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	c.Wall = time.Duration(watch.Now())
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	kilobytes, err := strconv.ParseInt(strings.Fields(peak)[0], 10, 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	c.PeakRSS = kilobytes << 10
	return map[bool]int{true: 0, false: 1}[json.NewEncoder(os.Stdout).Encode(c) == nil]
}

const bigScenario = `scenario: big
bodies:
  map:
    text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}"
steps:
- name: fill
  create: {body: map, count: 5000000, pace: {constant: 10000}}
- name: change
  create: {body: map, count: 5000000, pace: {constant: 10000}}
objectives:
- name: calls
  sli: call-latency
  statistic: p99.9
  max: 1
- name: startup
  sli: pod-startup
  labels: {group: fill}
  statistic: p99
  max: 5
`

const (
	bigCalls = 10_000_000
	bigPods  = 100_000
	bigTime  = 1000 * time.Second
)

// writeBig writes a run directory of ten million calls of eight kinds, the lives
// of a hundred thousand pods and 200 scrapes of 3,000 series, and returns the
// bytes that the calls take.
func writeBig(t *testing.T) (run string, perCall float64) {
	t.Helper()
	dir := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), "big")))(t)
	repotest.NoError(t, dir.Write(record.ScenarioFile, []byte(bigScenario)))
	m := record.Manifest{Format: record.Format, Scenario: "big", File: "big.yaml", Seed: 1, Versions: map[string]string{},
		Started: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, m))
	w := repotest.Must(record.Create(dir.File(record.StreamFile)))(t)
	w.Event(record.Event{Type: record.EventRunBegan, Name: "big"})
	writeCalls(w)
	before := size(t, dir)
	perCall = float64(before) / bigCalls
	writeLives(w)
	writeScrapes(w)
	w.Event(record.Event{At: clock.Time(bigTime + time.Minute), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
	repotest.NoError(t, w.Close())
	return string(dir), perCall
}

func size(t *testing.T, dir record.Dir) int64 {
	t.Helper()
	info := repotest.Must(os.Stat(dir.File(record.StreamFile)))(t)
	return info.Size()
}

// writeCalls writes calls in the order in which they end, some of which fail,
// are sent again or have no answer.
func writeCalls(w *record.Writer) {
	rng := rand.New(rand.NewPCG(1, 2))
	var ops []record.OpID
	for _, step := range []string{"fill", "change"} {
		for _, op := range []record.Op{{Source: "load", Verb: "create"}, {Source: "load", Verb: "get"}, {Source: "fleet", Verb: "patch", Subresource: "status"}, {Source: "fleet", Verb: "delete"}} {
			op.Step, op.Resource, op.Scope = step, "configmaps", "resource"
			if op.Source == "fleet" {
				op.Step = ""
				op.Resource += "." + step // kinds of their own
			}
			ops = append(ops, w.Op(op))
		}
	}
	for i := range bigCalls {
		due := clock.Time(int64(i) * int64(bigTime) / bigCalls)
		c := record.Call{Op: ops[i*len(ops)/bigCalls/4*4+rng.IntN(4)], Due: due, Code: 201, SentBytes: uint32(300 + rng.IntN(900)), ReceivedBytes: uint32(900 + rng.IntN(3000))}
		c.Sent = due.Add(time.Duration(rng.ExpFloat64() * 1e5))
		c.Done = c.Sent.Add(time.Duration(1e6 + rng.ExpFloat64()*1e7))
		switch n := rng.IntN(10_000); {
		case n < 5:
			c.Code, c.Outcome, c.RetryAfter = 429, record.Failed, time.Second
		case n < 8:
			c.Attempt = 1
		case n < 10:
			c.Code, c.Outcome = 0, record.Unknown
		}
		w.Call(c)
	}
}

func writeLives(w *record.Writer) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range bigPods {
		id := w.Object(record.Object{Resource: "pods", Namespace: "big-0", Name: "pod-" + strconv.Itoa(i), UID: fmt.Sprintf("%032x", rng.Uint64()), Group: "fill"})
		at := clock.Time(int64(i) * int64(bigTime) / bigPods)
		for _, phase := range []string{record.PhaseCreated, record.PhaseBound, record.PhaseRunning, record.PhaseReady} {
			w.Phase(record.Phase{Object: id, Phase: phase, At: at})
			at = at.Add(time.Duration(1e6 + rng.ExpFloat64()*1e8))
		}
	}
}

func writeScrapes(w *record.Writer) {
	rng := rand.New(rand.NewPCG(5, 6))
	var ids []record.SeriesID
	for i := range 3000 {
		ids = append(ids, w.Series(record.Series{Target: "kube-apiserver", Name: "apiserver_request_total", Labels: []record.Label{{Name: "code", Value: strconv.Itoa(i)}}}))
	}
	values := make([]float64, len(ids))
	for n := range 200 {
		s := record.Scrape{Target: "kube-apiserver", At: clock.Time(n) * clock.Time(bigTime/200), Took: 20 * time.Millisecond, Points: len(ids)}
		for i, id := range ids {
			values[i] += float64(rng.IntN(100))
			s.Values = append(s.Values, record.Value{Series: id, Value: values[i]})
		}
		w.Scrape(&s)
	}
}

// spend runs a child and returns what it cost.
func spend(t *testing.T, do, run string) (c cost, cpu time.Duration) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), doVar+"="+do, onVar+"="+run)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", do, err)
	}
	if err := json.Unmarshal(out, &c); err != nil {
		t.Fatalf("%s: %v: %s", do, err, out)
	}
	return c, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// TestTenMillionCalls holds the promise that ten million calls are judged, with
// report and all, in under a minute and a gigabyte, and take tens of bytes each.
// Beside it the same run is closed into columns. It writes some 600 MB.
func TestTenMillionCalls(t *testing.T) {
	if testing.Short() || os.Getenv("WINDTUNNEL_ACCURACY") == "" {
		t.Skip("takes a minute; set WINDTUNNEL_ACCURACY=1")
	}
	const within, memory = time.Minute, int64(1 << 30)
	run, perCall := writeBig(t)
	t.Logf("a call takes %.1f bytes", perCall)
	if perCall > 40 {
		t.Errorf("a call takes %.1f bytes, want tens", perCall)
	}
	judge, cpu := spend(t, "judge", run)
	t.Logf("judged in %v (CPU %v), peak resident %d MiB: %s", judge.Wall, cpu, judge.PeakRSS>>20, judge.Verdict)
	if judge.Wall > within || judge.PeakRSS > memory || judge.Verdict != slo.Pass {
		t.Errorf("judged %s in %v with %d MiB, want pass in %v with %d MiB", judge.Verdict, judge.Wall, judge.PeakRSS>>20, within, memory>>20)
	}
	columns, cpu := spend(t, "parquet", run)
	t.Logf("closed into columns in %v (CPU %v), peak resident %d MiB", columns.Wall, cpu, columns.PeakRSS>>20)
	if columns.Wall > within || columns.PeakRSS > memory {
		t.Errorf("closed into columns in %v with %d MiB, want %v with %d MiB", columns.Wall, columns.PeakRSS>>20, within, memory>>20)
	}
}
