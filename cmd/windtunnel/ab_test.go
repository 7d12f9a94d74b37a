package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/experiment"
	"github.com/windtunnel/windtunnel/record"
)

func TestOrder(t *testing.T) {
	if got, want := fmt.Sprint(order(3)), "[{0 0} {1 0} {1 1} {0 1} {0 2} {1 2}]"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

// abFlights is a stand-in for experiment.Run that writes made-up runs.
type abFlights struct {
	flown []string
	stop  int // the flight, from 1, that is interrupted; 0: none
}

func (f *abFlights) fly(_ context.Context, o experiment.Options) (experiment.Result, error) {
	f.flown = append(f.flown, fmt.Sprintf("%s %s %d", filepath.Base(o.Out), o.Set["limiter"], *o.Seed))
	s := side{limiter: o.Set["limiter"], seed: *o.Seed, cores: 2, latency: 10*time.Millisecond + time.Duration(len(f.flown))*1000, whole: len(f.flown) != f.stop}
	result := experiment.Result{Dir: record.Dir(o.Out)}
	if !s.whole {
		result.Err = experiment.ErrInterrupted
	}
	return result, s.write(o.Out)
}

// abArms prepares an experiment of two pairs in a folder.
func abArms(t *testing.T, folder string, f *abFlights) (*arms, *strings.Builder) {
	t.Helper()
	file := filepath.Join(folder, "small.yaml")
	if err := os.WriteFile(file, []byte(sideScenario), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &strings.Builder{}
	x := &arms{file: file, repeats: 2, out: filepath.Join(folder, "out"), env: &environment{stdout: out, stderr: io.Discard}, fly: f.fly}
	if err := x.prepare("limiter=none", "limiter=5/10", nil); err != nil {
		t.Fatal(err)
	}
	x.seed = 7
	return x, out
}

// An experiment that was stopped ends with what there is, and goes on where it was.
func TestABGoesOnWhereItWasStopped(t *testing.T) {
	folder := t.TempDir()
	first := &abFlights{stop: 3}
	x, out := abArms(t, folder, first)
	if err := x.run(t.Context(), &compareFlags{}); err == nil || err.Error() != "verdict unknown" {
		t.Errorf("stopped: %v, want verdict unknown", err)
	}
	if want := []string{"a-01 none 7", "b-01 5/10 7", "b-02 5/10 8"}; !slices.Equal(first.flown, want) {
		t.Errorf("flown %q, want %q", first.flown, want)
	}
	if !strings.Contains(out.String(), "it was interrupted") && !strings.Contains(out.String(), "no end") {
		t.Errorf("the run that was cut short is not named:\n%s", out)
	}
	second := &abFlights{}
	x, out = abArms(t, folder, second)
	if err := x.run(t.Context(), &compareFlags{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"b-02 5/10 8", "a-02 none 8"}; !slices.Equal(second.flown, want) {
		t.Errorf("flown %q, want %q", second.flown, want)
	}
	if !strings.Contains(out.String(), "parameter limiter  none  5/10  asked for") {
		t.Errorf("the parameter is not named:\n%s", out)
	}
	for _, name := range []string{"comparison.json", "comparison.md", "b-02-unfinished-1/manifest.json"} {
		if _, err := os.Stat(filepath.Join(folder, "out", name)); err != nil {
			t.Error(err)
		}
	}
}

// Runs of another experiment in the folder are not taken for this one's.
func TestABRefusesOtherRuns(t *testing.T) {
	folder := t.TempDir()
	x, _ := abArms(t, folder, &abFlights{})
	if err := (side{limiter: "1/1", seed: 7, latency: 1, cores: 2, whole: true}).write(x.dir(turn{0, 0})); err != nil {
		t.Fatal(err)
	}
	if err := x.run(t.Context(), &compareFlags{}); err == nil || !strings.Contains(err.Error(), "give another --out") {
		t.Errorf("error %v", err)
	}
}

func TestABInput(t *testing.T) {
	for _, c := range []struct {
		a, b string
		set  []string
		want string
	}{
		{"limiter", "limiter=2", nil, "--a limiter: want name=value"},
		{"limiter=1", "other=2", nil, "want two values of one parameter"},
		{"limiter=1", "limiter=2", []string{"limiter=3"}, "the arms set it"},
		{"limits=1", "limits=2", nil, `parameter "limits" not found`},
	} {
		x, _ := abArms(t, t.TempDir(), &abFlights{})
		x.name = ""
		if err := x.prepare(c.a, c.b, c.set); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--a %s --b %s --set %v: %v, want %q", c.a, c.b, c.set, err, c.want)
		}
	}
}
