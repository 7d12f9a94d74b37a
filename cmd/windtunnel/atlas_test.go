package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/atlas"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// atlasFlights stands in for flight.Run: with the gate Costly on, there are twice as many calls;
// with Broken turned, the plane does not start, and with Needed only if Needy is turned too.
type atlasFlights struct {
	flown  []string
	stop   int // the flight, from 1, that is interrupted; 0: none
	cancel func()
}

func (f *atlasFlights) fly(_ context.Context, o flight.Options) (flight.Result, error) {
	f.flown = append(f.flown, filepath.Base(filepath.Dir(o.Out))+"/"+filepath.Base(o.Out))
	gate := o.Set["plane.components.kube-apiserver.flags.feature-gates"]
	if strings.HasPrefix(gate, "Broken=") {
		return flight.Result{}, fmt.Errorf("%w: cannot set feature gate Broken to false, feature is locked to true", flight.ErrBoot)
	}
	if gate == "Needed=false" { // its directory is there, as that of each plane that died
		if err := writeAtlasRun(o, 0, len(f.flown)); err != nil {
			return flight.Result{}, err
		}
		return flight.Result{Err: fmt.Errorf("%w: Needy is enabled, but depends on features that are disabled: [Needed]", flight.ErrBoot)}, nil
	}
	if len(f.flown) == f.stop {
		f.cancel()
		return flight.Result{Err: flight.ErrInterrupted}, nil
	}
	calls := 100
	if gate == "Costly=true" {
		calls = 200
	}
	return flight.Result{Dir: record.Dir(o.Out)}, writeAtlasRun(o, calls, len(f.flown))
}

func writeAtlasRun(o flight.Options, calls, n int) error {
	sc, err := scenario.Parse(o.File, o.Text, o.Set)
	if err != nil {
		return err
	}
	d, err := record.CreateDir(o.Out)
	if err != nil {
		return err
	}
	if err := d.Write(record.ScenarioFile, o.Text); err != nil {
		return err
	}
	m := record.Manifest{Format: record.Format, Scenario: "small", File: o.File, Seed: *o.Seed, Parameters: sc.Values, Started: time.Date(2026, 1, 2, 3, 4, n, 0, time.UTC)}
	if err := d.WriteJSON(record.ManifestFile, m); err != nil {
		return err
	}
	w, err := record.Create(d.File(record.StreamFile))
	if err != nil {
		return err
	}
	w.Event(record.Event{Type: record.EventRunBegan, Name: "small"})
	w.Event(record.Event{Type: record.EventStepBegan, Name: "fill"})
	if rate, ok := sc.Values["rate"].(int64); ok {
		w.Event(record.Event{Type: record.EventLoadAsked, Name: "fill", Detail: record.Detail{Count: calls, Rate: float64(rate)}})
	}
	op := w.Op(record.Op{Source: "load", Step: "fill", Verb: "create", Resource: "pods", Scope: "resource"})
	for i := range clock.Time(calls) {
		due := i * clock.Time(time.Millisecond)
		w.Call(record.Call{Op: op, Due: due, Sent: due + 1000, Done: due.Add(10 * time.Millisecond), Code: 201})
	}
	w.Event(record.Event{At: clock.Time(500 * time.Millisecond), Type: record.EventStepEnded, Name: "fill"})
	w.Event(record.Event{At: clock.Time(time.Second), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
	return w.Close()
}

func newAtlasing(folder string, f *atlasFlights) (*atlasing, *strings.Builder) {
	out := &strings.Builder{}
	x := &atlasing{out: folder, name: "small.yaml", text: []byte(sideScenario), set: map[string]string{}, own: map[string]string{}, fly: f.fly, env: &environment{stdout: out, stderr: io.Discard}}
	for _, name := range []string{"Broken", "Costly", "Needed", "Quiet"} {
		x.gates = append(x.gates, atlas.Gate{Name: name, Stage: "beta", Default: name != "Costly", Components: []string{"kube-apiserver"}})
	}
	x.file.Format, x.file.Asked, x.file.Seconds = atlas.StateFormat, 4, 1
	return x, out
}

// An atlas that was stopped goes on where it was; a gate is flown in pairs only if a counter moved.
func TestAtlasGoesOnWhereItWasStopped(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first := &atlasFlights{stop: 12, cancel: cancel}
	x, _ := newAtlasing(folder, first)
	if err := x.flyAtlas(ctx, "text"); err == nil || err.Error() != "verdict unknown" {
		t.Errorf("stopped: %v", err)
	}
	second := &atlasFlights{}
	x, out := newAtlasing(folder, second)
	repotest.NoError(t, x.flyAtlas(t.Context(), "markdown"))
	if got := len(first.flown) + len(second.flown); got != atlas.Defaults+tries+1+atlas.Screened+2*atlas.Measured+tries+atlas.Screened+atlas.Screened {
		t.Errorf("%d flights: %v %v", got, first.flown, second.flown)
	}
	for _, want := range []string{"4 of 4 gates flown", "| Needed with Needy=false | beta | on | no counter moved |", "| Broken | beta | on | locked |", "| Costly | beta | off | moved |", "| Quiet | beta | on | no counter moved |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	costly, _ := x.file.Find("Costly")
	if got := fmt.Sprint(costly.Counters); got != "[{load: CREATE pods calls 100 200}]" {
		t.Error(got)
	}
	for _, name := range []string{"atlas.json", "atlas.md", "gates/Broken/README.md", "gates/Costly/README.md", "gates/Costly/comparison.txt"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			t.Error(err)
		}
	}
	x, _ = newAtlasing(folder, second)
	x.file.Setup.Seed = 9
	if err := x.flyAtlas(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), "another seed; give another --out") {
		t.Errorf("another seed: %v", err)
	}
}

func TestAtlasChoosesGates(t *testing.T) {
	for _, c := range []struct {
		patterns    []string
		stage, want string
	}{
		{nil, "", "Broken Costly Needed Quiet"},
		{[]string{"C*", "Quiet"}, "", "Costly Quiet"},
		{[]string{"c*"}, "", "--gate c*: no component knows such"},
		{[]string{"["}, "", "--gate [: syntax error"},
		{nil, "alpha", "--stage alpha: none of these gates has this stage"},
	} {
		x, _ := newAtlasing(t.TempDir(), &atlasFlights{})
		err := x.chooseGates(c.patterns, c.stage)
		var names []string
		for _, g := range x.gates {
			names = append(names, g.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%v %s: %s, want %s", c.patterns, c.stage, got, c.want)
		}
	}
}

// The gates that the scenario sets itself stay as they are.
func TestAtlasKeepsGatesOfTheScenario(t *testing.T) {
	x, _ := newAtlasing(t.TempDir(), &atlasFlights{})
	x.own["kube-apiserver"] = "Other=true"
	if got := x.side(x.gates[1], false, nil)["plane.components.kube-apiserver.flags.feature-gates"]; got != "Other=true,Costly=false" {
		t.Error(got)
	}
}
