package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/assess"
	"github.com/windtunnel/windtunnel/internal/opinion/publish"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// assessScenario creates as many pods as pods says; costly stands for a feature.
const assessScenario = `scenario: small
parameters: {pods: 40, rate: 100, costly: false}
bodies:
  pod: {text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}'}}"}
steps:
- name: fill
  create: {body: pod, count: "${costly ? 2 * pods : pods}", pace: {constant: "${rate}"}}
objectives:
- {name: calls, sli: call-latency, labels: {step: fill}, statistic: p50, max: 0.1}
`

// assessFlights stands in for flight.Run: a run has as many calls as its scenario has pods.
type assessFlights struct {
	flown  []string
	stop   int // the flight, from 1, that is interrupted; 0: none
	cancel func()
}

func (f *assessFlights) fly(_ context.Context, o flight.Options) (flight.Result, error) {
	f.flown = append(f.flown, filepath.Base(o.Out))
	if len(f.flown) == f.stop {
		f.cancel()
		return flight.Result{Err: flight.ErrInterrupted}, nil
	}
	plan, err := flight.Plan(o)
	if err != nil {
		return flight.Result{}, err
	}
	return flight.Result{Dir: record.Dir(o.Out)}, writeAtlasRun(o, plan.Estimate.Objects, len(f.flown))
}

// newAssessing prepares an assessment in a folder.
func newAssessing(t *testing.T, folder string, kind assess.Kind, f *assessFlights, asked assess.Asked, off, on []string) (*assessing, *strings.Builder, error) {
	t.Helper()
	file := filepath.Join(folder, "small.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(assessScenario), 0o600))
	out := &strings.Builder{}
	x := &assessing{name: file, out: filepath.Join(folder, "out"), asked: asked, env: &environment{stdout: out, stderr: io.Discard}, fly: f.fly}
	x.file.Kind = kind
	return x, out, x.checkInput(nil, off, on)
}

// An assessment that was stopped goes on where it was, and leaves page, figures and a bundle
// whose claims hold.
func TestAssessGoesOnWhereItWasStopped(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first, asked := &assessFlights{stop: 3, cancel: cancel}, assess.Asked{assess.Size: "pods=10,20,40", assess.Rate: "rate=100"}
	x, _, err := newAssessing(t, folder, assess.Operator, first, asked, nil, nil)
	repotest.NoError(t, err)
	if err := x.flyAssessment(ctx, "text"); err == nil || err.Error() != "verdict unknown" {
		t.Errorf("stopped: %v", err)
	}
	second := &assessFlights{}
	x, out, err := newAssessing(t, folder, assess.Operator, second, asked, nil, nil)
	repotest.NoError(t, err)
	repotest.NoError(t, x.flyAssessment(t.Context(), "markdown"))
	if got := strings.Join(append(first.flown, second.flown...), " "); got != "pods=10-01 pods=20-01 pods=40-01 pods=40-01 pods=40-02 pods=20-02 pods=10-02" {
		t.Errorf("flown %s", got)
	}
	for _, want := range []string{"6 of 6 runs of scenario small finished", "Level: measured. Run rules", "Not measured (memory): No such figure was recorded", "All sizes that were flown pass"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	var f assess.File
	raw, err := os.ReadFile(filepath.Join(x.out, assess.StateFile))
	if err := errors.Join(err, json.Unmarshal(raw, &f)); err != nil || f.Finished != 6 || len(f.Plan.Arms) != 3 {
		t.Errorf("%v: %+v", err, f)
	}
	if v, err := publish.Verify(t.Context(), filepath.Join(x.out, assess.BundleFile), nil, version); err != nil || v.State == publish.Fails || len(v.Results.Runs) != 6 {
		t.Errorf("bundle: %v %+v", err, v)
	}
}

// Where the user names no rates, those are flown that the runs make worth a look, also by a
// call that goes on where another was stopped.
func TestAssessSearchesForTheRate(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first, asked := &assessFlights{stop: 6, cancel: cancel}, assess.Asked{assess.Size: "pods=20,40"}
	x, _, err := newAssessing(t, folder, assess.Operator, first, asked, nil, nil)
	repotest.NoError(t, err)
	var plan strings.Builder
	if err := x.sayPlan(&plan, false); err != nil || !strings.Contains(plan.String(), "4 runs: about") || !strings.Contains(plan.String(), "then up to 18 runs that search for the sustained rate") {
		t.Errorf("%v: %s", err, plan.String())
	}
	if err := x.flyAssessment(ctx, "text"); err == nil || err.Error() != "verdict unknown" {
		t.Errorf("stopped: %v", err)
	}
	second := &assessFlights{}
	if x, _, err = newAssessing(t, folder, assess.Operator, second, asked, nil, nil); err != nil {
		t.Fatal(err)
	}
	repotest.NoError(t, x.flyAssessment(t.Context(), "text"))
	got := strings.Join(append(first.flown, second.flown...), " ")
	want := "pods=20-01 pods=40-01 pods=40-02 pods=20-02 rate=200-01 rate=200-02 rate=200-02 rate=400-01 rate=400-02 rate=800-01"
	if !strings.HasPrefix(got, want) || x.file.Finished != x.file.Plan.Runs() {
		t.Errorf("flown %s, want %s; finished %d of %d", got, want, x.file.Finished, x.file.Plan.Runs())
	}
}

// A feature is flown off and on in pairs, and the seven questions of a KEP are answered.
func TestAssessFeature(t *testing.T) {
	folder := t.TempDir()
	flights := &assessFlights{}
	x, out, err := newAssessing(t, folder, assess.Feature, flights, nil, []string{"costly=false"}, []string{"costly=true"})
	repotest.NoError(t, err)
	repotest.NoError(t, x.flyAssessment(t.Context(), "text"))
	if got := strings.Join(flights.flown[:4], " "); len(flights.flown) != 10 || got != "a-01 b-01 b-02 a-02" {
		t.Errorf("flown %s of %d", got, len(flights.flown))
	}
	for _, want := range []string{"Sides: off: costly=false; on: costly=true.", "Will enabling this feature result in any new API calls?\n\nload: CREATE pods: 40 calls -&gt; 80 calls (×2).", "Not measured: nodes are simulated."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
}

func TestAssessInput(t *testing.T) {
	for _, c := range []struct {
		name    string
		kind    assess.Kind
		asked   assess.Asked
		off, on []string
		want    string
	}{
		{"size by its effect", assess.Operator, nil, nil, nil, ""},
		{"no side", assess.Feature, nil, nil, nil, "want --off NAME=VALUE"},
		{"sides of an operator", assess.Release, nil, []string{"costly=false"}, nil, "--off and --on are for assess feature"},
		{"no such field", assess.Feature, nil, nil, []string{"costy=true"}, `did you mean "costly"`},
		{"a value that the scenario refuses", assess.Operator, assess.Asked{assess.Size: "pods=0.5,1"}, nil, nil, "pods"},
	} {
		x, _, err := newAssessing(t, t.TempDir(), c.kind, &assessFlights{}, c.asked, c.off, c.on)
		if c.want == "" && (err != nil || x.file.Plan.Sweeps[0].Param != "pods") || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}
