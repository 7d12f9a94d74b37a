package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// searchFlights stands in for experiment.Run: it passes up to an edge.
type searchFlights struct {
	edge   float64
	flown  []string
	stop   int           // the flight, from 1, that is interrupted; 0: none
	failed map[int]error // why a flight leaves nothing
	cancel func()
	most   float64 // pods per second that are achieved; 0: no rate is told
}

func (f *searchFlights) fly(_ context.Context, o flight.Options) (flight.Result, error) {
	f.flown = append(f.flown, fmt.Sprintf("%s %d", filepath.Base(o.Out), *o.Seed))
	if string(o.Text) != searchScenario {
		return flight.Result{}, fmt.Errorf("flown is %q", o.Text)
	}
	dir, err := record.CreateDir(o.Out)
	if err != nil {
		return flight.Result{}, err
	}
	result := flight.Result{Dir: dir, Err: f.failed[len(f.flown)]}
	if len(f.flown) == f.stop {
		f.cancel()
		result.Err = flight.ErrInterrupted
	}
	pods, err := strconv.ParseFloat(o.Set["pods"], 64)
	if err != nil {
		return result, err
	}
	value, verdict := pods/f.edge, slo.Pass
	if pods > f.edge {
		verdict = slo.Fail
	}
	result.Judgement = slo.Judgement{Verdict: verdict, Reasons: []string{"p99 of startup is too high."},
		Objectives: []slo.Result{{Name: "startup", Statistic: "p99", Value: &value, Unit: "seconds", Threshold: 1, Verdict: verdict}}}
	if f.most > 0 {
		result.Judgement.Rates = []run.Rate{{Name: "pods running of fill", Step: "fill", Unit: "pods/s", Asked: pods, Achieved: min(pods, f.most)}}
		if err := dir.WriteJSON(diagnose.File, []diagnose.Finding{{Cause: diagnose.ClientThrottle, Component: "kube-scheduler"}}); err != nil {
			return result, err
		}
	}
	return result, dir.WriteJSON(record.ManifestFile, record.Manifest{Format: record.Format})
}

const searchScenario = `scenario: small
description: ${word}
parameters:
  pods: 10
  word: x
bodies:
  pod:
    text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}'}}"
steps:
- name: fill
  create: {body: pod, count: "${pods}", pace: {constant: 1000}}
objectives:
- sli: call-latency
  statistic: p99
  max: 1
`

// newSearching prepares a search of pods from 100 to 900.
func newSearching(t *testing.T, folder string, f *searchFlights) (*searching, *strings.Builder) {
	t.Helper()
	file := filepath.Join(folder, "small.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(searchScenario), 0o600))
	out := &strings.Builder{}
	x := &searching{file: file, out: filepath.Join(folder, "out"), env: &environment{stdout: out, stderr: io.Discard}, fly: f.fly}
	x.state.Plan = capacity.Plan{Resolution: 0.125, Repeats: 2}
	repotest.NoError(t, x.checkInput([]string{"pods=100..900"}, nil))
	return x, out
}

// A search that was stopped goes on where it was, and ends where one does that was not.
func TestSearchGoesOnWhereItWasStopped(t *testing.T) {
	whole := &searchFlights{edge: 450}
	x, out := newSearching(t, t.TempDir(), whole)
	if err := os.Remove(x.file); err != nil { // its runs are of the text that was read at the beginning
		t.Fatal(err)
	}
	if err := x.flySearch(t.Context(), "text"); err == nil || err.Error() != "verdict pass" {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := []string{"pods=100-01 1", "pods=200-01 1", "pods=400-01 1", "pods=800-01 1", "pods=600-01 1", "pods=500-01 1", "pods=400-02 2", "pods=500-02 2"}; !slices.Equal(whole.flown, want) {
		t.Errorf("flown %q, want %q", whole.flown, want)
	}
	if want := "pods 400 passes (2 of 2 runs passed), 500 does not (0 of 2 runs passed); what\ngives way is p99 of startup"; !strings.Contains(out.String(), want) {
		t.Errorf("no %q in\n%s", want, out)
	}

	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first := &searchFlights{edge: 450, stop: 4, cancel: cancel}
	x, _ = newSearching(t, folder, first)
	if err := x.flySearch(ctx, "text"); err == nil || err.Error() != "verdict unknown" {
		t.Fatalf("stopped: %v", err)
	}
	second := &searchFlights{edge: 450}
	x, _ = newSearching(t, folder, second)
	if err := x.flySearch(t.Context(), "json"); err == nil || err.Error() != "verdict pass" {
		t.Fatal(err)
	}
	if got := append(slices.Clone(first.flown[:3]), second.flown...); !slices.Equal(got, whole.flown) {
		t.Errorf("flown %q and %q", first.flown, second.flown)
	}
	for _, name := range []string{"search.json", "envelope.svg", "pods=800-01-unfinished-1/manifest.json"} {
		if _, err := os.Stat(filepath.Join(folder, "out", name)); err != nil {
			t.Error(err)
		}
	}
}

// A budget ends a search; with a larger one it goes on.
func TestSearchKeepsToItsBudget(t *testing.T) {
	folder := t.TempDir()
	f := &searchFlights{edge: 450}
	x, out := newSearching(t, folder, f)
	x.state.Plan.MaxRuns = 3
	if err := x.flySearch(t.Context(), "markdown"); err == nil || err.Error() != "verdict unknown" || len(f.flown) != 3 {
		t.Errorf("%v after %q", err, f.flown)
	}
	if !strings.Contains(out.String(), "the search is not at its end") || !strings.Contains(out.String(), "| 400 | 1 | 1 | 0 | 0 |") {
		t.Errorf("%s", out)
	}
	x, _ = newSearching(t, folder, f)
	if err := x.flySearch(t.Context(), "text"); err == nil || err.Error() != "verdict pass" || len(f.flown) != 8 {
		t.Errorf("%v after %q", err, f.flown)
	}
}

// A plane that does not start is tried again, and then the search ends: what
// was measured stays.
func TestSearchAndPlanesThatDoNotStart(t *testing.T) {
	boot := fmt.Errorf("%w: why", flight.ErrBoot)
	folder := t.TempDir()
	f := &searchFlights{edge: 450, failed: map[int]error{2: boot, 4: boot, 5: boot, 6: boot}}
	x, _ := newSearching(t, folder, f)
	if err := x.flySearch(t.Context(), "text"); !errors.Is(err, flight.ErrBoot) || !strings.Contains(err.Error(), "goes on from here") {
		t.Errorf("%v", err)
	}
	raw := repotest.Must(os.ReadFile(filepath.Join(folder, "out", "search.json")))(t)
	s, err := capacity.ReadState("search.json", raw)
	if err != nil || len(s.Runs) != 2 || len(f.flown) != 6 {
		t.Errorf("%v: %d runs kept of %q", err, len(s.Runs), f.flown)
	}
}

func TestSearchRefusesWhatIsNotItsOwn(t *testing.T) {
	folder := t.TempDir()
	f := &searchFlights{edge: 450}
	x, _ := newSearching(t, folder, f)
	x.state.Plan.MaxRuns = 1
	_ = x.flySearch(t.Context(), "text") // its verdict is unknown
	path := filepath.Join(folder, "out", "search.json")
	raw := repotest.Must(os.ReadFile(path))(t)
	for name, c := range map[string]struct {
		change func(s map[string]any)
		want   string
	}{
		"another version":  {func(s map[string]any) { s["format"] = 2 }, "format 2, this version reads format 1"},
		"another scenario": {func(s map[string]any) { s["scenario_sha256"] = "x" }, "it has another scenario's text; give another --out"},
		"another seed":     {func(s map[string]any) { s["seed"] = 99 }, "another seed"},
		"another machine":  {func(s map[string]any) { s["machine"].(map[string]any)["cores"] = 999 }, "another machine"},
		"a bad run":        {func(s map[string]any) { s["runs"].([]any)[0].(map[string]any)["point"] = []float64{1, 2} }, "run 1 has 2 values for 1 parameter"},
	} {
		var s map[string]any
		repotest.NoError(t, json.Unmarshal(raw, &s))
		c.change(s)
		changed := repotest.Must(json.Marshal(s))(t)
		repotest.NoError(t, os.WriteFile(path, changed, 0o600))
		x, _ := newSearching(t, folder, f)
		if err := x.flySearch(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	repotest.NoError(t, os.WriteFile(path, raw[:len(raw)/2], 0o600))
	x, _ = newSearching(t, folder, f)
	if err := x.flySearch(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), "not JSON: it ends too early") {
		t.Errorf("half a file: %v", err)
	}
	if len(f.flown) != 1 {
		t.Errorf("flown %q", f.flown)
	}
}

func TestSearchInput(t *testing.T) {
	for _, c := range []struct {
		vary, set []string
		want      string
	}{
		{nil, nil, "--vary: want a parameter"},
		{[]string{"pods"}, nil, "--vary pods: no name"},
		{[]string{"rods=1..2"}, nil, "--vary rods: parameter not found"},
		{[]string{"word=1..2"}, nil, "it is not a number"},
		{[]string{"pods=1..2.5"}, nil, "${pods} = 2.5 is not a whole number"},
		{[]string{"pods=1..5"}, []string{"pods=3"}, "it is varied"},
		{[]string{"pods=1..5", "pods=1..5"}, nil, "parameter pods twice"},
	} {
		x, _ := newSearching(t, t.TempDir(), &searchFlights{})
		x.state.Plan.Axes = nil
		x.state.Plan.Columns = 2
		if err := x.checkInput(c.vary, c.set); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v %v: %v, want %q", c.vary, c.set, err, c.want)
		}
	}
}

// A plain search whose passing runs fell short says so; the same folder then finds
// the throughput, with the runs that are there.
func TestSearchForThroughput(t *testing.T) {
	folder := t.TempDir()
	f := &searchFlights{edge: 1e6, most: 300}
	x, out := newSearching(t, folder, f)
	if err := x.flySearch(t.Context(), "text"); err == nil || err.Error() != "verdict pass" {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "but only 300 of the 900 pods/s asked for\nwere achieved"; !strings.Contains(out.String(), want) || strings.Contains(out.String(), "the most that was asked for") {
		t.Errorf("no %q in\n%s", want, out)
	}
	plain := len(f.flown)
	x, out = newSearching(t, folder, f)
	x.state.Plan.Goal = capacity.ThroughputGoal
	if err := x.flySearch(t.Context(), "text"); err == nil || err.Error() != "verdict pass" {
		t.Fatalf("%v\n%s", err, out)
	}
	words := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"throughput, pods running of fill: 300 pods/s (95 % interval 300 to 300", "what limits it there is client-throttle (kube-scheduler)", "asked, achieved: pods running of fill, in pods/s", "0 900 300"} {
		if !strings.Contains(words, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if f.flown[plain] == "pods=100-01 1" {
		t.Errorf("flown again: %q", f.flown)
	}
	x, _ = newSearching(t, folder, f)
	x.state.Plan.Rate = "calls of fill"
	if err := x.flySearch(t.Context(), "text"); err == nil || err.Error() != "--rate calls of fill: not found; the run has pods running of fill" {
		t.Errorf("another rate: %v", err)
	}
}
