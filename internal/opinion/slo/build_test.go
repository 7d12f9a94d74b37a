package slo_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// flight writes a synthetic record stream. Times are seconds of the run's clock;
// the run itself lasts from 10 to 100.
type flight struct {
	t    testing.TB
	path string
	w    *record.Writer
	sc   scenario.Scenario
	m    record.Manifest
}

const runBegin, runEnd = 10.0, 100.0

func newFlight(t testing.TB) *flight {
	t.Helper()
	f := &flight{t: t, path: filepath.Join(t.TempDir(), record.StreamFile)}
	w := repotest.Must(record.Create(f.path))(t)
	f.w = w
	f.sc.Name = "test"
	f.m.Fleet = record.FleetFacts{Nodes: 10, LeaseSeconds: 40}
	f.m.Plane.Ready = 3.1
	for _, name := range []string{"etcd", "kube-apiserver"} {
		f.m.Plane.Components = append(f.m.Plane.Components, record.ComponentFact{Name: name})
	}
	f.event(1, record.EventStepBegan, "populate", "")
	f.event(8.5, record.EventStepEnded, "populate", "")
	f.w.Event(record.Event{At: at(8), Type: record.EventFleetReady, Detail: record.Detail{Count: 10}})
	f.scrape(9)
	f.event(runBegin, record.EventRunBegan, "test", "")
	return f
}

func at(seconds float64) clock.Time { return clock.Time(seconds * 1e9) }

func (f *flight) event(t float64, what record.EventType, name, text string) {
	f.w.Event(record.Event{At: at(t), Type: what, Name: name, Text: text})
}

// did writes a step that did what it should.
func (f *flight) did(step string) {
	f.event(50, record.EventStepBegan, step, "")
	f.event(60, record.EventStepEnded, step, "")
}

// scrape marks a complete scrape of the API server.
func (f *flight) scrape(t float64) { f.event(t, record.EventScraped, "kube-apiserver", "") }

// end ends the run, and the stream.
func (f *flight) end(reason record.EndReason) { f.ends(record.Detail{Reason: reason}, "") }

// fails ends the run by a failure, of a step where one is named.
func (f *flight) fails(step, why string) {
	f.ends(record.Detail{Reason: record.Broken, Step: step}, why)
}

func (f *flight) ends(d record.Detail, why string) {
	f.scrape(runEnd - 0.5)
	f.w.Event(record.Event{At: at(runEnd), Type: record.EventRunEnded, Name: "last", Text: why, Detail: d})
}

// call is one call, sent late seconds after it was due at t, answered took
// seconds after it was due.
func (f *flight) call(op record.Op, t, late, took float64, outcome record.Outcome) {
	f.w.Call(record.Call{Op: f.w.Op(op), Due: at(t), Sent: at(t + late), Done: at(t + took), Outcome: outcome,
		Code: map[record.Outcome]uint16{record.OK: 201, record.Failed: 429}[outcome]})
}

func loadOp() record.Op {
	return record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "pods", Scope: "resource"}
}

// calls are n calls of the load at 100/s that take 10 ms.
func (f *flight) calls(n int) {
	for i := range n {
		f.call(loadOp(), 20+float64(i)/100, 0, 0.01, record.OK)
	}
}

// pod is one pod's life: phases and their times, in pairs.
func (f *flight) pod(group string, phases ...any) {
	id := f.w.Object(record.Object{Resource: "pods", Namespace: "n", Name: "p", UID: "u", Group: group})
	for i := 0; i < len(phases); i += 2 {
		f.w.Phase(record.Phase{Object: id, Phase: phases[i].(string), At: at(phases[i+1].(float64))})
	}
}

// pods are n pods that are created at 50/s from 20 s on and run after took.
func (f *flight) pods(group string, n int, took float64) {
	for i := range n {
		t := 20 + float64(i)/50
		f.pod(group, "created", t, "bound", t+took/2, "running", t+took, "ready", t+took+0.01)
	}
}

// request names a histogram of the API server.
type request struct{ verb, group, resource, subresource, scope string }

var bounds = []float64{0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}

// histogram writes the state of a histogram at t: how many requests lasted how
// many seconds.
func (f *flight) histogram(t float64, r request, durations map[float64]int) {
	labels := func(le string) []record.Label {
		out := []record.Label{{Name: "component", Value: "apiserver"}, {Name: "group", Value: r.group}}
		if le != "" {
			out = append(out, record.Label{Name: "le", Value: le})
		}
		return append(out, record.Label{Name: "resource", Value: r.resource}, record.Label{Name: "scope", Value: r.scope},
			record.Label{Name: "subresource", Value: r.subresource}, record.Label{Name: "verb", Value: r.verb}, record.Label{Name: "version", Value: "v1"})
	}
	const family = "apiserver_request_sli_duration_seconds"
	total, sum := 0, 0.0
	for d, n := range durations {
		total += n
		sum += d * float64(n)
	}
	for _, le := range bounds {
		n := 0
		for d, k := range durations {
			if d <= le {
				n += k
			}
		}
		f.sample(t, "kube-apiserver", family+"_bucket", float64(n), labels(strconv.FormatFloat(le, 'g', -1, 64))...)
	}
	f.sample(t, "kube-apiserver", family+"_bucket", float64(total), labels("+Inf")...)
	f.sample(t, "kube-apiserver", family+"_sum", sum, labels("")...)
	f.sample(t, "kube-apiserver", family+"_count", float64(total), labels("")...)
}

func (f *flight) sample(t float64, target, name string, v float64, labels ...record.Label) {
	id := f.w.Series(record.Series{Target: target, Name: name, Labels: labels})
	f.w.Sample(record.Sample{Series: id, At: at(t), Value: v})
}

// quickRequests are requests of one kind that take 30 ms, seen at 50 s.
func (f *flight) quickRequests() {
	f.histogram(50, request{"POST", "", "pods", "", "resource"}, map[float64]int{0.03: 3000})
}

// usage writes the CPU and memory of all processes: a plane of 30 CPU seconds,
// an instrument of 3.
func (f *flight) usage() {
	for target, cpu := range map[string]float64{"etcd": 10, "kube-apiserver": 20, "windtunnel": 3} {
		f.sample(9.5, target, "process_cpu_seconds_total", 5)
		f.sample(99.5, target, "process_cpu_seconds_total", 5+cpu)
		f.sample(9.5, target, "process_resident_memory_bytes", 100e6)
		f.sample(40, target, "process_resident_memory_bytes", 100e6*(1+cpu))
	}
}

func (f *flight) objective(o scenario.Objective) { f.sc.Objectives = append(f.sc.Objectives, o) }

func official(pods ...string) scenario.Objective {
	return scenario.Objective{SLO: "kubernetes", Pods: pods}
}

// judge closes the stream and judges it, twice: the bytes must be the same.
func (f *flight) judge() slo.Judgement {
	f.t.Helper()
	repotest.NoError(f.t, f.w.Close())
	return judge(f.t, f.path, &f.sc, f.m)
}

func judge(t testing.TB, path string, sc *scenario.Scenario, m record.Manifest) slo.Judgement {
	t.Helper()
	var first []byte
	var j slo.Judgement
	for range 2 {
		j = judged(t, collected(t, path, sc, m))
		raw := repotest.Must(json.MarshalIndent(j, "", "  "))(t)
		if first != nil && string(raw) != string(first) {
			t.Fatalf("the same records gave two judgements:\n%s\n%s", first, raw)
		}
		first = raw
	}
	if os.Getenv("SHOW") != "" {
		fmt.Printf("%s\n%s\n", t.Name(), first)
	}
	return j
}

// collected reads the records at path.
func collected(t testing.TB, path string, sc *scenario.Scenario, m record.Manifest) *run.Run {
	t.Helper()
	facts := repotest.Must(run.Collect(path, m))(t)
	return &run.Run{Manifest: m, Scenario: sc, Facts: facts}
}

func judged(t testing.TB, r *run.Run) slo.Judgement {
	t.Helper()
	return repotest.Must(slo.Judge(r))(t)
}

// find returns the result with these labels, or fails.
func find(t testing.TB, j slo.Judgement, name string, labels map[string]string) slo.Result {
	t.Helper()
	for _, r := range j.Objectives {
		same := r.Name == name
		for k, v := range labels {
			same = same && r.Labels[k] == v
		}
		if same {
			return r
		}
	}
	t.Fatalf("no result %q %v among %+v", name, labels, j.Objectives)
	return slo.Result{}
}
