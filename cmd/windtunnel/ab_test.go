package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestOrder(t *testing.T) {
	if got, want := fmt.Sprint(turnOrder(3)), "[{0 0} {1 0} {1 1} {0 1} {0 2} {1 2}]"; got != want {
		t.Errorf("order %s, want %s", got, want)
	}
}

// abFlights is a stand-in for experiment.Run that writes made-up runs.
type abFlights struct {
	flown  []string
	stop   int           // the flight, from 1, that is interrupted; 0: none
	failed map[int]error // why a flight leaves nothing to compare, by its number
	cancel func()        // called when a flight is interrupted
}

func (f *abFlights) fly(_ context.Context, o flight.Options) (flight.Result, error) {
	f.flown = append(f.flown, fmt.Sprintf("%s %s %d", filepath.Base(o.Out), o.Set["limiter"], *o.Seed))
	if string(o.Text) != sideScenario {
		return flight.Result{}, fmt.Errorf("flown is %q", o.Text)
	}
	s := side{limiter: o.Set["limiter"], seed: *o.Seed, cores: 2, latency: 10*time.Millisecond + time.Duration(len(f.flown))*1000, whole: len(f.flown) != f.stop}
	result := flight.Result{Dir: record.Dir(o.Out)}
	if err := f.failed[len(f.flown)]; err != nil {
		result.Err = err
		return result, errors.Join(os.MkdirAll(o.Out, 0o700), os.WriteFile(filepath.Join(o.Out, "manifest.json"), nil, 0o600))
	}
	if !s.whole {
		result.Err = flight.ErrInterrupted
		f.cancel()
	}
	return result, s.write(o.Out)
}

// abArms prepares an experiment of two pairs in a folder.
func abArms(t *testing.T, folder string, f *abFlights) (*arms, *strings.Builder) {
	t.Helper()
	file := filepath.Join(folder, "small.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(sideScenario), 0o600))
	out := &strings.Builder{}
	x := &arms{file: file, repeats: 2, out: filepath.Join(folder, "out"), env: &environment{stdout: out, stderr: io.Discard}, fly: f.fly}
	repotest.NoError(t, x.checkInput("limiter=none", "limiter=5/10", nil))
	x.seed = 7
	return x, out
}

// An experiment that was stopped ends with what there is, and goes on where it was.
func TestABGoesOnWhereItWasStopped(t *testing.T) {
	folder := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first := &abFlights{stop: 3, cancel: cancel}
	x, out := abArms(t, folder, first)
	if err := os.Remove(x.file); err != nil { // its runs are of the text that was read at the beginning
		t.Fatal(err)
	}
	if err := x.flyTurns(ctx, &compareFlags{}); err == nil || err.Error() != "verdict unknown" {
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
	repotest.NoError(t, x.flyTurns(t.Context(), &compareFlags{}))
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
	repotest.NoError(t, (side{limiter: "1/1", seed: 7, latency: 1, cores: 2, whole: true}).write(x.runDir(turn{0, 0})))
	if err := x.flyTurns(t.Context(), &compareFlags{}); err == nil || !strings.Contains(err.Error(), "give another --out") {
		t.Errorf("error %v", err)
	}
}

func TestABInput(t *testing.T) {
	for _, c := range []struct {
		a, b string
		set  []string
		want string
	}{
		{"limiter", "limiter=2", nil, `--a "limiter": want name=value`},
		{"", "", nil, `--a "": want name=value, the value of a parameter in these runs`},
		{"limiter=1", "other=2", nil, "want two values of one parameter"},
		{"limiter=1", "limiter=2", []string{"limiter=3"}, "the arms set it"},
		{"limits=1", "limits=2", nil, `parameter "limits" not found`},
	} {
		x, _ := abArms(t, t.TempDir(), &abFlights{})
		x.name = ""
		if err := x.checkInput(c.a, c.b, c.set); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("--a %s --b %s --set %v: %v, want %q", c.a, c.b, c.set, err, c.want)
		}
	}
}

// What goes wrong at two in the morning costs one run and not the others.
func TestABGoesOnAfterAFailedRun(t *testing.T) {
	boot := fmt.Errorf("%w: the port is taken", flight.ErrBoot)
	folder := t.TempDir()
	once := &abFlights{failed: map[int]error{2: boot}}
	x, _ := abArms(t, folder, once)
	repotest.NoError(t, x.flyTurns(t.Context(), &compareFlags{all: true}))
	if want := []string{"a-01 none 7", "b-01 5/10 7", "b-01 5/10 7", "b-02 5/10 8", "a-02 none 8"}; !slices.Equal(once.flown, want) {
		t.Errorf("flown %q, want %q", once.flown, want)
	}

	folder = t.TempDir()
	lost := &abFlights{failed: map[int]error{2: boot, 3: boot, 4: boot}}
	x, out := abArms(t, folder, lost)
	repotest.NoError(t, x.flyTurns(t.Context(), &compareFlags{all: true}))
	if want := []string{"a-01 none 7", "b-01 5/10 7", "b-01 5/10 7", "b-01 5/10 7", "b-02 5/10 8", "a-02 none 8"}; !slices.Equal(lost.flown, want) {
		t.Errorf("flown %q, want %q", lost.flown, want)
	}
	if !strings.Contains(out.String(), "b-01 could not be flown: no plane: the port is taken.") {
		t.Errorf("the run that is missing is not named:\n%s", out)
	}
	later := &abFlights{} // the one that is missing is flown by the same command
	x, _ = abArms(t, folder, later)
	repotest.NoError(t, x.flyTurns(t.Context(), &compareFlags{all: true}))
	if want := []string{"b-01 5/10 7"}; !slices.Equal(later.flown, want) {
		t.Errorf("flown %q, want %q", later.flown, want)
	}
}

// Where nothing can be flown the experiment ends at once, and where nothing can
// be flown any more it ends soon, with what there is.
func TestABEndsWhereNothingCanBeFlown(t *testing.T) {
	boot := fmt.Errorf("%w: no room", flight.ErrBoot)
	none := &abFlights{failed: map[int]error{1: boot, 2: boot, 3: boot}}
	x, _ := abArms(t, t.TempDir(), none)
	if err := x.flyTurns(t.Context(), &compareFlags{}); !errors.Is(err, flight.ErrBoot) || len(none.flown) != tries {
		t.Errorf("%v after %q", err, none.flown)
	}
	some := &abFlights{failed: map[int]error{}}
	for i := 3; i < 20; i++ {
		some.failed[i] = boot
	}
	x, out := abArms(t, t.TempDir(), some)
	x.repeats = 10
	if err := x.flyTurns(t.Context(), &compareFlags{}); err == nil || err.Error() != "verdict unknown" {
		t.Errorf("%v", err)
	}
	if len(some.flown) != 2+maxLost*tries || !strings.Contains(out.String(), "limiter=5/10, 1 run") {
		t.Errorf("flown %q\n%s", some.flown, out)
	}
	full := &abFlights{failed: map[int]error{2: flight.ErrNoRecords}}
	x, _ = abArms(t, t.TempDir(), full)
	if err := x.flyTurns(t.Context(), &compareFlags{}); err == nil || err.Error() != "verdict unknown" || len(full.flown) != 2 {
		t.Errorf("a full disk: %v after %q", err, full.flown)
	}
}

// What follows from the parameter is asked for, and nothing else.
func TestAsked(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	text := `scenario: x
parameters:
  limiter: 20/30
  nodes: 5
  pods: ${nodes * 10}
plane:
  components:
    kube-controller-manager:
      flags: {kube-api-qps: '${limiter.split("/")[0]}', kube-api-burst: '${limiter.split("/")[1]}', v: "2"}
      env: {GOGC: "${nodes}"}
      cpu: ${nodes / 10}
fleet: {nodes: "${nodes}"}
subjects:
- name: controller
  command: /bin/true
  args: ["--limiter=${limiter}", --listen=127.0.0.1:0, --threads, "3"]
  env: {GOMAXPROCS: "${nodes}"}
  limits: {memory: "${nodes}Gi"}
bodies:
  b: {text: t}
steps:
- pause: 1s
`
	repotest.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	load := func(set map[string]string) *scenario.Scenario {
		return repotest.Must(scenario.Load(file, set))(t)
	}
	base := load(nil)
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"limiter", "5/10", []string{"controller --limiter", "kube-controller-manager --kube-api-burst", "kube-controller-manager --kube-api-qps", "parameter limiter"}},
		{"nodes", "7", []string{"controller GOMAXPROCS", "controller limits in force", "controller memory limit", "fleet nodes", "kube-controller-manager GOGC", "kube-controller-manager cpu limit",
			"kube-controller-manager limits in force", "parameter nodes", "parameter pods"}},
		{"limiter", "20/30", nil},
	} {
		if got := askedDifferences(base, load(map[string]string{c.name: c.value})); !slices.Equal(got, c.want) {
			t.Errorf("%s=%s: %q, want %q", c.name, c.value, got, c.want)
		}
	}
}

// So few runs that they can show nothing are said before the first flight, with the
// number that would do, and refused where a gate could only end unknown.
func TestABSaysThatRunsAreTooFew(t *testing.T) {
	file := filepath.Join(t.TempDir(), "small.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(sideScenario), 0o600))
	for _, v := range []struct {
		repeats int
		above   float64
		said    string
		refused bool
	}{
		{3, 0, "--repeats 3 cannot show any difference: with so few runs, chance alone separates the sides too often (4 each can", false},
		{3, 0.05, "", true}, {4, 0, "", false}, {4, 0.05, "", false},
	} {
		said := &strings.Builder{}
		x := &arms{file: file, repeats: v.repeats, options: compare.Options{FailAbove: v.above}, env: &environment{stdout: io.Discard, stderr: said}}
		err := x.checkInput("limiter=none", "limiter=5/10", nil)
		if (err != nil) != v.refused || v.refused && !strings.Contains(err.Error(), "4 each can") {
			t.Errorf("%d runs, fail above %v: %v", v.repeats, v.above, err)
		}
		if !strings.Contains(said.String(), v.said) || v.said == "" && strings.Contains(said.String(), "cannot show") {
			t.Errorf("%d runs, fail above %v: said %q", v.repeats, v.above, said)
		}
	}
}
