package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A driver that was killed while it wrote goes on behind the last whole line.
func TestLedgerGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trials.jsonl")
	p := plan{scenario: "s", a: "x=1", b: "x=2", runs: 3, measure: "m"}
	one := trial{Trial: 1, Scenario: "s", A: "x=1", B: "x=2", Asked: 3, Measure: "m", Found: true}
	l, err := openLedger(path)
	repotest.NoError(t, err)
	repotest.NoError(t, l.appendTrial(one))
	l.close()
	raw := repotest.Must(os.ReadFile(path))(t)
	repotest.NoError(t, os.WriteFile(path, append(raw, `{"trial":2,"sc`...), 0o600))
	if l, err = openLedger(path); err != nil {
		t.Fatal(err)
	}
	if got, ok := l.findTrial(1, p); !ok || !got.Found {
		t.Errorf("the first trial: %+v, %v", got, ok)
	}
	if _, ok := l.findTrial(2, p); ok {
		t.Error("half a line is taken for a trial")
	}
	p.runs = 4
	if _, ok := l.findTrial(1, p); ok {
		t.Error("a trial of another plan is taken for this one's")
	}
	one.Trial = 2
	repotest.NoError(t, l.appendTrial(one))
	l.close()
	raw, err = os.ReadFile(path)
	if err != nil || strings.Count(string(raw), "\n") != 2 || strings.Contains(string(raw), `{"trial":2,"sc{`) {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestOutcome(t *testing.T) {
	p := plan{measure: "m"}
	c := &compare.Comparison{Measures: []compare.Measure{{Key: "m", Outcome: compare.Worse}, {Key: "n", Outcome: compare.Better}, {Key: "o", Outcome: compare.Inconclusive}}}
	got, err := p.outcomeOf(1, c)
	if err != nil || !got.Found || len(got.Others) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	c.Measures[0].Outcome = compare.Better
	if got, err := p.outcomeOf(1, c); err != nil || got.Found {
		t.Errorf("a change for the better counts: %+v, %v", got, err)
	}
	p.measure = "x"
	if _, err := p.outcomeOf(1, c); err == nil {
		t.Error("a measure that is not there is no error")
	}
}
