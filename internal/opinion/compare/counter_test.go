package compare_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A run's counters are those between its begin and its end, per pod.
func TestCounters(t *testing.T) {
	dir := record.Dir(t.TempDir())
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, record.Manifest{Format: record.Format, Scenario: "x"}))
	repotest.NoError(t, dir.Write(record.VerdictFile, []byte(`{"verdict": "pass"}`)))
	w := repotest.Must(record.Create(dir.File(record.StreamFile)))(t)
	at := clock.Time(0)
	op := w.Op(record.Op{Source: "load", Step: "one", Verb: "create", Resource: "pods", Scope: "resource"})
	again := w.Op(record.Op{Source: "load", Step: "two", Verb: "create", Resource: "pods", Scope: "resource"})
	posts := w.Series(record.Series{Target: "kube-apiserver", Name: "apiserver_request_total", Labels: []record.Label{{Name: "code", Value: "201"}, {Name: "resource", Value: "pods"}, {Name: "subresource", Value: "binding"}, {Name: "verb", Value: "POST"}}})
	refused := w.Series(record.Series{Target: "kube-apiserver", Name: "apiserver_request_total", Labels: []record.Label{{Name: "code", Value: "409"}, {Name: "resource", Value: "pods"}, {Name: "subresource", Value: "binding"}, {Name: "verb", Value: "POST"}}})
	events := w.Series(record.Series{Target: "kube-apiserver", Name: "apiserver_watch_events_total", Labels: []record.Label{{Name: "group", Value: "apps"}, {Name: "kind", Value: "Deployment"}}})
	var heaps []record.SeriesID
	for _, process := range []string{"etcd-0", "etcd-1", "my-operator", "windtunnel"} {
		heaps = append(heaps, w.Series(record.Series{Target: process, Name: "go_memstats_mallocs_total"}))
	}
	sample := func(posted, conflicts, seen float64) {
		for _, heap := range heaps {
			w.Sample(record.Sample{Series: heap, At: at, Value: 10 * posted})
		}
		w.Sample(record.Sample{Series: posts, At: at, Value: posted})
		w.Sample(record.Sample{Series: refused, At: at, Value: conflicts})
		w.Sample(record.Sample{Series: events, At: at, Value: seen})
		w.Event(record.Event{At: at, Type: record.EventScraped, Name: "kube-apiserver"})
	}
	w.Call(record.Call{Op: op, Code: 201, SentBytes: 999}) // before the run
	sample(100, 7, 1000)
	at++
	w.Event(record.Event{At: at, Type: record.EventRunBegan, Name: "x"})
	for i, code := range []uint16{201, 201, 500} {
		outcome := record.OK
		if code >= 400 {
			outcome = record.Failed
		}
		w.Call(record.Call{Op: []record.OpID{op, again, op}[i], Due: at, Sent: at, Done: at, Code: code, Outcome: outcome, SentBytes: 50, ReceivedBytes: 80})
	}
	for i := range 2 {
		o := w.Object(record.Object{Resource: "pods", Name: fmt.Sprint(i), UID: fmt.Sprint(i)})
		w.Phase(record.Phase{Object: o, Phase: record.PhaseCreated, At: at})
	}
	at++
	sample(103, 8, 1008)
	w.Event(record.Event{At: at, Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
	at++
	sample(500, 8, 5000) // cleaning up
	repotest.NoError(t, w.Close())
	r := repotest.Must(compare.Open(string(dir)))(t)
	var got []string
	for _, c := range r.Facts.Counters {
		got = append(got, fmt.Sprintf("%s: %v %s", c.Name, c.Value, c.Unit))
	}
	want := []string{
		"allocated: etcd: 30 objects/pod", "allocated: my-operator: 15 objects/pod",
		"created: pods: 2 objects", "load: CREATE pods: 120 bytes received/pod", "load: CREATE pods: 75 bytes sent/pod",
		"load: CREATE pods: 0.5 calls failed/pod", "load: CREATE pods: 1.5 calls/pod",
		"server: POST pods/binding: 2 requests/pod", "watch events: Deployment apps: 4 events/pod",
	}
	if !slices.Equal(got, want) {
		t.Errorf("counters\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if r.Unfit() != "" {
		t.Errorf("unfit: %s", r.Unfit())
	}
}

// What a scenario measures itself is compared: as a count where it does not say
// what would be better, in any case listed, and judged where it does.
func TestOwnMeasures(t *testing.T) {
	s := newSource(3, 0.04)
	a, b := s.sides(5, 1)
	for side, runs := range [][]compare.Run{a, b} {
		for i, r := range runs {
			m := r.Judgement.Measures
			m["calls_per_thing"] = slo.Measure{Value: 6, Unit: "calls", Own: true}
			m["writes_per_thing"] = slo.Measure{Value: 4.4 + 0.6*float64(side) + 0.01*float64(i), Unit: "calls", Own: true}
			m["waited"] = slo.Measure{Value: 100 - 90*float64(side) + float64(i), Unit: "seconds", Own: true, Better: "lower"}
			if i == 0 {
				m["sometimes"] = slo.Measure{Value: 1, Unit: "calls", Own: true}
			}
		}
	}
	c := repotest.Must(compare.Compare(a, b, compare.Options{}))(t)
	var got []string
	for _, k := range c.Counters {
		if k.Own {
			got = append(got, fmt.Sprint(k.Name, " ", k.State, " ", k.Shown))
		}
	}
	if want := []string{"calls per thing equal false", "writes per thing varies true"}; !slices.Equal(got, want) {
		t.Errorf("counters %q, want %q", got, want)
	}
	i := slices.IndexFunc(c.Measures, func(m compare.Measure) bool { return m.Key == "waited" })
	if i < 0 || c.Measures[i].Outcome != compare.Better || c.Measures[i].Title != "waited" {
		t.Errorf("waited: %d, %+v", i, c.Measures)
	}
	if !slices.ContainsFunc(c.Warnings, func(s string) bool { return strings.HasPrefix(s, "sometimes was not measured") }) {
		t.Errorf("warnings %q", c.Warnings)
	}
	var text strings.Builder
	if err := c.Text(&text); err != nil || !regexp.MustCompile(`(?m)^  equal +calls per thing \(calls\) +6 +6 +0$`).MatchString(text.String()) {
		t.Errorf("%v\n%s", err, text.String())
	}
}

func TestTitles(t *testing.T) {
	for key, want := range map[string]string{
		"lifecycle_vmi_created_to_running_p95_seconds":           "p95 vmi created to running",
		"lifecycle_vmi_pod_created_to_running_max_seconds_burst": "max vmi pod created to running (burst)",
		"pod_startup_p99_seconds_latency":                        "p99 pod startup (latency)",
		"cpu_ms_per_pod_kube_apiserver":                          "CPU per pod of kube-apiserver",
		"some_thing_else":                                        "some thing else",
	} {
		if got, _, _ := compare.Title(key, slo.Measure{}); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}

func ExampleCompare() {
	var sides [2][]compare.Run
	for i := range 10 {
		side := i % 2
		latency := 0.1 + 0.001*float64(i) - 0.02*float64(side)
		sides[side] = append(sides[side], compare.Run{
			Name: fmt.Sprint("run", i), Manifest: record.Manifest{Scenario: "density"},
			Judgement: slo.Judgement{Verdict: slo.Pass, Measures: map[string]slo.Measure{"pod_startup_p99_seconds": {Value: latency, Unit: "seconds"}}},
		})
	}
	c, err := compare.Compare(sides[0], sides[1], compare.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(c.Measures[0].Sentence)
	// Output: p99 pod startup is 18 % lower in B (13 to 23 %, 5 runs each)
}
