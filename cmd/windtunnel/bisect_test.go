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

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/bisect"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// bisectScenario has parameters of which one changes latency.
const bisectScenario = `scenario: small
description: ${limiter}, ${nodes} nodes, ${pods} pods, ${rate}/s
parameters:
  limiter: none
  nodes: 5
  pods: 7
  rate: 10
bodies:
  pod:
    text: "{apiVersion: v1, kind: Pod, metadata: {name: '{{ .Name }}'}}"
steps:
- name: fill
  create: {body: pod, count: 200, pace: {constant: 1000}}
`

// bisectFlights stands in for flight.Run: rate=20 makes calls half as slow again.
type bisectFlights struct {
	flown  int
	stop   int // the flight, from 1, that is interrupted; 0: none
	cancel func()
	boot   map[string]string // parameters with which the plane does not start
}

func (f *bisectFlights) fly(_ context.Context, o flight.Options) (flight.Result, error) {
	f.flown++
	for name, value := range f.boot {
		if o.Set[name] == value {
			return flight.Result{}, fmt.Errorf("%w: no such option", flight.ErrBoot)
		}
	}
	s := side{limiter: "none", seed: *o.Seed, cores: 2, latency: 10*time.Millisecond + time.Duration(f.flown*1000), whole: true}
	if o.Set["rate"] == "20" {
		s.latency = 15*time.Millisecond + time.Duration(f.flown*1000)
	}
	result := flight.Result{Dir: record.Dir(o.Out)}
	if f.flown == f.stop {
		s.whole, result.Err = false, flight.ErrInterrupted
		f.cancel()
	}
	return result, s.write(o.Out)
}

// newBisecting prepares a search in a folder.
func newBisecting(t *testing.T, folder string, f *bisectFlights) (*bisecting, *strings.Builder) {
	t.Helper()
	file := filepath.Join(folder, "small.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(bisectScenario), 0o600))
	out := &strings.Builder{}
	x := &bisecting{out: filepath.Join(folder, "out"), env: &environment{stdout: out, stderr: io.Discard}, fly: f.fly}
	x.file.File, x.file.Search.Plan.Runs, x.file.Setup.Patterns = file, bisect.DefaultRuns, []string{"call latency"}
	sides := bisectSides{good: []string{"nodes=4"}, bad: []string{"nodes=6", "rate=20", "pods=8", "limiter=5/10"}}
	repotest.NoError(t, x.checkInput(sides, nil))
	x.file.Setup.Seed = 7
	return x, out
}

// A search that was stopped goes on where it was, names the cause and says how to see it again.
func TestBisectGoesOnWhereItWasStopped(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first := &bisectFlights{stop: 3, cancel: cancel}
	x, _ := newBisecting(t, folder, first)
	if err := x.flySearch(ctx, "text"); err == nil || err.Error() != "verdict unknown" {
		t.Errorf("stopped: %v", err)
	}
	x, out := newBisecting(t, folder, &bisectFlights{})
	repotest.NoError(t, x.flySearch(t.Context(), "text"))
	for _, want := range []string{"rate 10 -> 20 causes the difference.", "50 % more in bad", "--a rate=10 --b rate=20", "--set nodes=4", "cause"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out)
		}
	}
	if got := x.file.Search.Runs[2].Dir; got != "002b" {
		t.Errorf("third run %s", got)
	}
	for _, name := range []string{"bisect.json", "bisect.md", "002b-unfinished-1/manifest.json"} {
		if _, err := os.Stat(filepath.Join(folder, "out", name)); err != nil {
			t.Error(err)
		}
	}
	repotest.NoError(t, os.WriteFile(x.file.File, []byte(bisectScenario+"# changed\n"), 0o600))
	x.file.Search.Runs = nil
	repotest.NoError(t, x.checkInput(bisectSides{bad: []string{"rate=20"}}, nil))
	if err := x.flySearch(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), "another scenario's text") {
		t.Errorf("a changed file: %v", err)
	}
}

// Combinations whose plane does not start are skipped and said; good or bad itself is a fault.
func TestBisectSkipsWhatDoesNotStart(t *testing.T) {
	x, out := newBisecting(t, t.TempDir(), &bisectFlights{boot: map[string]string{"limiter": "5/10"}})
	if err := x.flySearch(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("bad does not start: %v\n%s", err, out)
	}
}

func TestBisectInput(t *testing.T) {
	for _, c := range []struct {
		sides bisectSides
		set   []string
		want  string
	}{
		{bisectSides{}, nil, "good and bad do not differ"},
		{bisectSides{bad: []string{"rate"}}, nil, "--bad rate: want name=value"},
		{bisectSides{good: []string{"rats=3"}}, nil, "parameter rats: the scenario has none of that name"},
		{bisectSides{bad: []string{"rate=10"}}, nil, "good and bad do not differ"},
		{bisectSides{bad: []string{"rate=12"}}, []string{"rate=3"}, "--set rate: it is a parameter of good and bad"},
		{bisectSides{bad: []string{"rate=12"}, between: []string{"rate"}}, nil, "--between rate: want name=value,value"},
		{bisectSides{bad: []string{"rate=12"}, between: []string{"pods=1"}}, nil, "--between pods: good and bad do not differ in it"},
	} {
		x, _ := newBisecting(t, t.TempDir(), &bisectFlights{})
		if err := x.checkInput(c.sides, c.set); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.sides, err, c.want)
		}
	}
}

// Values between good and bad are steps that follow one another.
func TestBisectBetween(t *testing.T) {
	x, out := newBisecting(t, t.TempDir(), &bisectFlights{})
	x.out += "-between"
	repotest.NoError(t, x.checkInput(bisectSides{bad: []string{"rate=20"}, between: []string{"rate=12,15,18"}}, nil))
	if err := x.flySearch(t.Context(), "markdown"); err != nil || !strings.Contains(out.String(), "rate 18 -&gt; 20 causes the difference.") {
		t.Errorf("%v\n%s", err, out)
	}
	if got := x.file.Search.Plan.Changes; len(got) != 4 || got[1].From != "12" || got[1].To != "15" || got[1].Chain != "rate" {
		t.Errorf("changes %v", got)
	}
}
