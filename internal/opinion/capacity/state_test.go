package capacity_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// state is that of a search at its end.
func state(p capacity.Plan, o oracle) capacity.State {
	runs, _, _ := fly(p, o)
	return capacity.State{Format: capacity.StateFormat, Scenario: "small", Text: "abc", Set: map[string]string{"rate": "5"}, Seed: 1,
		Machine: record.Machine{Cores: 2}, Plane: capacity.Plane{Kind: capacity.Cluster, Identity: "one"}, Versions: map[string]string{"windtunnel": "1"}, Plan: p, Runs: runs, Result: capacity.Conclude(p, runs)}
}

func text(t testing.TB, write func(io.Writer) error) string {
	t.Helper()
	var out strings.Builder
	repotest.NoError(t, write(&out))
	return out.String()
}

// What is written is read as the same, and gives the same next step.
func TestStateIsReadAsTheSame(t *testing.T) {
	s := state(one("pods=1000..5000"), below(3700))
	raw := text(t, s.JSON)
	again := repotest.Must(capacity.ReadState("search.json", []byte(raw)))(t)
	if second := text(t, again.JSON); second != raw {
		t.Error("not the same bytes")
	}
	for n := range s.Runs {
		a, b := capacity.Next(s.Plan, s.Runs[:n]), capacity.Next(again.Plan, again.Runs[:n])
		if a.Why != b.Why {
			t.Errorf("after %d runs: %q and %q", n, a.Why, b.Why)
		}
	}
}

// A search that an earlier version has kept is read, and gone on with.
func TestKeptState(t *testing.T) {
	raw := repotest.Must(os.ReadFile(filepath.Join("testdata", "kept.json")))(t)
	kept := repotest.Must(capacity.ReadState("search.json", raw))(t)
	if again := text(t, kept.JSON); again != string(raw) {
		t.Errorf("written as\n%s", again)
	}
	s := state(one("pods=1000..5000"), below(3700))
	if err := s.Resume(kept); err != nil || capacity.Next(s.Plan, s.Runs).Point != nil {
		t.Errorf("%v, next %+v", err, capacity.Next(s.Plan, s.Runs))
	}
}

func TestResume(t *testing.T) {
	earlier := state(one("pods=1000..5000"), below(3700))
	s := earlier
	s.Runs = nil
	s.Plan.Repeats, s.Plan.MaxRuns, s.Plan.Resolution = 5, 40, 0.025
	if err := s.Resume(earlier); err != nil || len(s.Runs) != len(earlier.Runs) {
		t.Errorf("another budget: %v", err)
	}
	for what, change := range map[string]func(*capacity.State){
		"set of parameters":        func(s *capacity.State) { s.Set = nil },
		"set of varied parameters": func(s *capacity.State) { s.Plan.Axes = one("pods=1000..6000").Axes },
		"set of versions":          func(s *capacity.State) { s.Versions = map[string]string{"windtunnel": "2"} },
		"plane or cluster":         func(s *capacity.State) { s.Plane = capacity.Plane{Kind: capacity.Cluster, Identity: "another"} },
		"scenario's text":          func(s *capacity.State) { s.Text = "x" },
	} {
		other := earlier
		change(&other)
		s := earlier
		if err := s.Resume(other); !errors.Is(err, capacity.ErrOther) || !strings.HasSuffix(err.Error(), "it has another "+what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWrite(t *testing.T) {
	s := state(one("pods=1000..5000"), below(3700))
	s.Scenario = "a\x1b[31m|b"
	for _, c := range []struct {
		markdown bool
		want     []string
	}{
		{false, []string{"pods from 1,000 to 5,000, linear, 5 % apart", "3,600     3       3       0        0", "P99 OF POD STARTUP"}},
		{true, []string{"### windtunnel search: a�\\[31m\\|b", "| 3,800 | 3 | 0 | 3 | 0 | 6.69 s |"}},
	} {
		got := text(t, func(w io.Writer) error { return s.Write(w, c.markdown) })
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		if strings.Contains(got, "\x1b") {
			t.Errorf("an escape is written:\n%q", got)
		}
	}
}

func TestJudged(t *testing.T) {
	v := 3.0
	r := capacity.NewRun([]float64{5}, slo.Judgement{Verdict: slo.Fail, Reasons: []string{"why"}, Objectives: []slo.Result{
		{Name: "startup", Statistic: "p99", Labels: map[string]string{"group": "fill"}, Value: &v, Threshold: 2, Unit: "seconds", Verdict: slo.Fail}}})
	if r.Reason != "why" || len(r.Objectives) != 1 || r.Objectives[0].Name != "p99 of startup (fill)" || *r.Objectives[0].Value != 3 {
		t.Errorf("%+v", r)
	}
}

func FuzzReadState(f *testing.F) {
	s := state(two("nodes=10..50", "pods=10..50"), under(900))
	f.Add([]byte(text(f, s.JSON)))
	f.Add([]byte(`{"format":1,"plan":{"axes":[{"name":"x","from":1,"to":2}],"resolution":0.5,"repeats":1},"runs":[{"point":[1]}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := capacity.ReadState("f", raw)
		if err != nil || len(raw) > 1<<14 {
			return
		}
		if s.Plan.Resolution < 0.01 { // many levels take long, and show nothing more
			return
		}
		capacity.Next(s.Plan, s.Runs)
		s.Result = capacity.Conclude(s.Plan, s.Runs)
		if err := s.Write(io.Discard, true); err != nil {
			t.Error(err)
		}
	})
}

// What came to nothing, or exceeds a bound of 0, is beyond its bound by more
// than what any number says.
func TestWorstValueLimits(t *testing.T) {
	zero, some, most := 0.0, 0.001, 900.0
	p := one("pods=1000..5000")
	for name, worst := range map[string]capacity.Objective{
		"rate of pods": {Name: "rate of pods", Value: &zero, Threshold: 10, AtLeast: true, Verdict: slo.Fail},
		"errors":       {Name: "errors", Value: &some, Threshold: 0, Verdict: slo.Fail},
	} {
		other := capacity.Objective{Name: "a latency", Value: &most, Unit: "seconds", Threshold: 1, Verdict: slo.Fail}
		runs := []capacity.Run{{Point: []float64{1000}, Verdict: slo.Fail, Objectives: []capacity.Objective{other, worst}}}
		r := capacity.Conclude(p, runs)
		if r.Limit == nil || r.Limit.Objective != name {
			t.Errorf("%s: %+v", name, r.Limit)
		}
		s := capacity.State{Plan: p, Runs: runs, Result: r}
		text(t, s.JSON)
	}
	kept := capacity.Objective{Name: "errors", Value: &zero, Threshold: 0, Verdict: slo.Pass}
	near := capacity.Objective{Name: "z latency", Value: &some, Unit: "seconds", Threshold: 1, Verdict: slo.Pass}
	r := capacity.Conclude(p, []capacity.Run{{Point: []float64{1000}, Verdict: slo.Pass, Objectives: []capacity.Objective{kept, near}}})
	if r.Limit == nil || r.Limit.Objective != "z latency" {
		t.Errorf("a bound of 0 that is kept limits: %+v", r.Limit)
	}
}
