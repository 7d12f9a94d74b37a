package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// made writes verdicts of runs that followed one another; drift is by what
// factor the last is slower than the first.
func made(t *testing.T, n int, drift float64) (paths []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range n {
		d := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), fmt.Sprint(i))))(t)
		m := record.Manifest{Format: record.Format, Scenario: "x", Started: time.Date(2026, 1, 2, 3, i, 0, 0, time.UTC)}
		v := math.Exp(0.02*r.NormFloat64()) * math.Pow(drift, float64(i)/float64(n))
		j := slo.Judgement{Verdict: slo.Pass, Measures: map[string]slo.Measure{"pod_startup_p99_seconds": {Value: v, Unit: "seconds"}}}
		repotest.NoError(t, d.WriteJSON(record.ManifestFile, m))
		repotest.NoError(t, d.WriteJSON(record.VerdictFile, j))
		paths = append(paths, string(d))
	}
	return paths
}

// Runs of one source give few alarms, also where the machine drifts: dealing
// neighbours to both sides takes that away.
func TestCount(t *testing.T) {
	for _, drift := range []float64{1, 1.3} {
		runs := repotest.Must(openRuns(made(t, 60, drift)))(t)
		all, r := tally{keys: map[string]int{}}, rand.New(rand.NewPCG(2, 2))
		for from := range 3 {
			stretch := runs[from*20 : (from+1)*20]
			for range 60 {
				repotest.NoError(t, all.compareSides(stretch, randomPairs(r, 10)))
			}
			repotest.NoError(t, all.compareSides(stretch, isInterleavedA))
		}
		if !all.isWithinBound() {
			t.Errorf("drift %v: %s", drift, &all)
		}
	}
}

func TestTallyCountsAlarms(t *testing.T) {
	runs, err := openRuns(made(t, 20, 8)) // first half against second half
	repotest.NoError(t, err)
	all := tally{keys: map[string]int{}}
	repotest.NoError(t, all.compareSides(runs, func(i int) bool { return i < 10 }))
	if all.alarms != 1 || all.keys["pod_startup_p99_seconds"] != 1 || all.isWithinBound() {
		t.Errorf("%s", &all)
	}
}

func TestInput(t *testing.T) {
	if _, err := countAlarms(made(t, 3, 1), 2, 1, 1); err == nil {
		t.Error("three runs are enough for two sides of two")
	}
	if _, err := countAlarms([]string{t.TempDir()}, 1, 1, 1); err == nil {
		t.Error("an empty folder is a run")
	}
}
