package bisect

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A search that was stopped goes on as if it had not been.
func TestResumes(t *testing.T) {
	w := world{changes: 20, culprits: []int{3}, effect: 0.1, noise: 0.01, counter: true, decoys: 10, unknown: 0.1, broken: 0.1}
	whole := w.fly(5, DefaultRuns)
	for n := range whole.Runs {
		raw := repotest.Must(json.Marshal(Search{Plan: whole.Plan, Measures: whole.Measures, Runs: whole.Runs[:n]}))(t)
		var read Search
		repotest.NoError(t, json.Unmarshal(raw, &read))
		step, ok := Next(&read)
		if !ok || !reflect.DeepEqual(step, whole.Runs[n].Step) {
			t.Errorf("run %d: %+v, want %+v", n, step, whole.Runs[n].Step)
		}
	}
}

// The sides of pairs are flown in turns, and good and bad first of all.
func TestOrderOfRuns(t *testing.T) {
	s := (world{changes: 3, culprits: []int{1}, effect: 0.2, counter: true}).fly(1, DefaultRuns)
	var sides strings.Builder
	for _, r := range s.Runs[:8] {
		sides.WriteString([]string{"a", "b"}[r.Side])
	}
	if got := sides.String(); got != "abbaabba" {
		t.Errorf("order %s", got)
	}
	if first := s.Runs[0].Step; first.Purpose != Verify || len(first.With) != 0 || len(first.Other) != 3 {
		t.Errorf("first %+v", first)
	}
}

func TestAnswers(t *testing.T) {
	counter := world{changes: 8, culprits: []int{3}, effect: 0.1, noise: 0.003, counter: true}
	for _, c := range []struct {
		name string
		w    func(*world)
		runs int
		want Answer
		says string
	}{
		{"one", func(*world) {}, 40, One, "p3 0 -> 1 causes the difference."},
		{"two", func(w *world) { w.culprits = []int{3, 5} }, 40, Together, "p3 0 -> 1 and p5 0 -> 1 cause the difference, and only together."},
		{"alike", func(w *world) { w.culprits = nil }, 40, Nothing, "do not differ beyond chance in 10 runs of each"},
		{"few runs", func(*world) {}, 4, Open, "not known after 2 runs of each"},
		{"some runs", func(*world) {}, 13, Open, "do not tell which of"},
		{"one change", func(w *world) { w.changes, w.culprits = 1, []int{0} }, 40, One, "p0 0 -> 1 causes the difference."},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := counter
			c.w(&w)
			r := Conclude(w.fly(2, c.runs))
			if r.Answer != c.want || !strings.Contains(r.Sentence, c.says) {
				t.Errorf("%s: %s, want %s: %s", r.Answer, r.Sentence, c.want, c.says)
			}
		})
	}
}

// Where less is better and good has more, good is the worse one; where nobody can say, it is
// a difference like others.
func TestReversed(t *testing.T) {
	w := world{changes: 8, culprits: []int{3}, effect: -0.2, noise: 0.003, counter: true}
	s := w.fly(2, 40)
	if r := Conclude(s); r.Answer != One || r.Bad >= r.Good {
		t.Errorf("without a direction: %+v", r)
	}
	s.Measures["m"] = Measure{Counter: true, Lower: true}
	if r := Conclude(s); r.Answer != Reversed {
		t.Errorf("less is better: %+v", r)
	}
	if _, more := Next(s); more {
		t.Error("the search goes on")
	}
}

// Changes that each do a part are not called one change, nor a set.
func TestSeveral(t *testing.T) {
	s := (world{changes: 6, counter: true}).newSearch(DefaultRuns)
	for {
		step, ok := Next(s)
		if !ok {
			break
		}
		value := 1000 + 100*float64(len(step.With)) + float64(len(s.Runs)%3)
		s.Runs = append(s.Runs, Run{Step: step, State: Measured, Values: map[string]float64{"m": value}})
	}
	if r := Conclude(s); r.Answer != Several && r.Answer != Open {
		t.Errorf("%+v", r)
	}
}

// A counter that good lacks is one that bad alone has: it is 0 there.
func TestNewCounter(t *testing.T) {
	s := (world{changes: 4, counter: true}).newSearch(DefaultRuns)
	for {
		step, ok := Next(s)
		if !ok {
			break
		}
		r := Run{Step: step, State: Measured, Values: map[string]float64{}}
		if newConfig(4, step.With)[2] {
			r.Values["m"] = 50
		}
		s.Runs = append(s.Runs, r)
	}
	if r := Conclude(s); r.Answer != One || r.Changes[0] != 2 || r.Good != 0 {
		t.Errorf("%+v", r)
	}
}

func TestNeededRuns(t *testing.T) {
	few := NeededRuns(make([]Change, 2), 1)
	many := NeededRuns(make([]Change, 64), 60)
	t.Logf("2 changes: %d runs; 64 changes, 60 measures: %d runs", few, many)
	if few < 8 || many <= few || many > DefaultRuns {
		t.Errorf("%d and %d runs", few, many)
	}
}
