package history_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// entries makes up a history of one measure by its values.
func entries(key, unit string, values ...float64) *history.File {
	f := &history.File{Format: history.Format, Scenario: "made-up"}
	for i, v := range values {
		f.Entries = append(f.Entries, history.Entry{Name: fmt.Sprintf("run-%03d", i+1), Started: time.Date(2026, 1, 2, i, 0, 0, 0, time.UTC),
			Verdict: slo.Pass, Measures: map[string]slo.Measure{key: {Value: v, Unit: unit}}})
	}
	return f
}

// noisy draws values of a level with 5 % of noise.
func noisy(r *rand.Rand, n int, level float64) (out []float64) {
	for range n {
		out = append(out, level*math.Exp(0.05*r.NormFloat64()))
	}
	return out
}

// builds looks at a history after each build, as CI does, and returns the number
// of builds after which the gate failed; 0: it never did.
func builds(t *testing.T, f *history.File, o history.Options) int {
	t.Helper()
	for n := 1; n <= len(f.Entries); n++ {
		upTo := *f
		upTo.Entries = f.Entries[:n]
		if look(t, &upTo, o).Gate.Verdict == slo.Fail {
			return n
		}
	}
	return 0
}

// What docs/how-to/builds.md promises of the gate: of 100 histories of 40 builds
// without a change it fails in fewer than 5, however small the share; one of
// 20 % is found within six builds in most, and within eight in nearly all.
func TestGateOverManyBuilds(t *testing.T) {
	const trials = 200
	o := history.Options{FailAbove: 1e-6, Changes: stats.NewChanges(1)}
	r := rand.New(rand.NewPCG(8, 8))
	one, three, six, eight := 0, 0, 0, 0
	for range trials {
		if builds(t, entries("pod_startup_p99_seconds", "seconds", noisy(r, 40, 1)...), o) > 0 {
			one++
		}
		f := entries("pod_startup_p99_seconds", "seconds", noisy(r, 40, 1)...)
		for _, key := range []string{"lifecycle_p99_seconds", "cpu_ms_per_pod_etcd"} {
			for i, v := range noisy(r, 40, 1) {
				f.Entries[i].Measures[key] = slo.Measure{Value: v}
			}
		}
		if builds(t, f, o) > 0 {
			three++
		}
		values := slices.Concat(noisy(r, 20, 1), noisy(r, 8, 1.2))
		switch n := builds(t, entries("pod_startup_p99_seconds", "seconds", values...), o); {
		case n > 20 && n <= 26:
			six++
			fallthrough
		case n > 20:
			eight++
		}
	}
	if one > trials*5/100 || three > trials*5/100 || six < trials*75/100 || eight < trials*90/100 {
		t.Errorf("of %d: %d alarms with one measure, %d with three; %d found within six builds, %d within eight", trials, one, three, six, eight)
	}
	t.Logf("of %d: %d alarms with one measure, %d with three; %d found within six builds, %d within eight", trials, one, three, six, eight)
}

// A change fails no build before it has been found three times running.
func TestSuspected(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	values := slices.Concat(noisy(r, 20, 1), noisy(r, 12, 2))
	o := history.Options{FailAbove: 0.05, Changes: stats.NewChanges(1)}
	suspected := 0
	for n := 21; n <= len(values); n++ {
		report := look(t, entries("pod_startup_p99_seconds", "seconds", values[:n]...), o)
		changes := report.Measures[0].Changes
		switch {
		case len(changes) == 0:
		case changes[0].Suspected:
			suspected++
			if g := report.Gate; g.Verdict != slo.Pass || !slices.Equal(g.Suspected, []string{"pod_startup_p99_seconds"}) {
				t.Errorf("suspected after %d runs: %+v", n, g)
			}
			if want := "1 of 1 are suspected: 2 runs more will tell."; !strings.HasSuffix(report.Conclusion(), want) {
				t.Errorf("%q, want %q", report.Conclusion(), want)
			}
		case report.Gate.Verdict != slo.Fail:
			t.Errorf("found three times running, after %d runs: %+v", n, report.Gate)
		}
	}
	if suspected != 2 {
		t.Errorf("suspected in %d looks, want 2", suspected)
	}
}

// A run that did not come to its end takes nothing away from --accept.
func TestAcceptWithRunsLeftOut(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 8))
	slow := func() *history.File {
		f := entries("pod_startup_p99_seconds", "seconds", slices.Concat(noisy(r, 20, 1), noisy(r, 11, 2))...)
		f.Entries[30].LeftOut = "it was killed"
		return f
	}
	o := history.Options{FailAbove: 0.05, Changes: stats.NewChanges(1)}
	f := slow()
	if v := look(t, f, o).Gate.Verdict; v != slo.Fail {
		t.Fatalf("not accepted: %s", v)
	}
	accept(t, f, history.Acceptance{})
	if v := look(t, f, o).Gate.Verdict; v != slo.Pass || !f.Entries[29].Accepted {
		t.Errorf("accepted: %s", v)
	}
	f = slow()
	f.Entries[30].Accepted = true // by an older version, or before it was found to be left out
	if v := look(t, f, o).Gate.Verdict; v != slo.Pass {
		t.Errorf("accepted with a run that is left out: %s", v)
	}
}

// Where a level was 0, no share says how much worse another is.
func TestGateAtZero(t *testing.T) {
	o := history.Options{FailAbove: 0.05, Changes: stats.NewChanges(1)}
	steps := func(levels ...float64) (out []float64) {
		for _, v := range levels {
			out = append(out, slices.Repeat([]float64{v}, 12)...)
		}
		return out
	}
	for _, c := range []struct {
		key, unit string
		levels    []float64
		want      slo.Verdict
	}{
		{"pods_deleted_per_second", "pods/s", []float64{0, 5, 0}, slo.Pass},
		{"pods_deleted_per_second", "pods/s", []float64{0, 5}, slo.Pass},
		{"pods_deleted_per_second", "pods/s", []float64{5, 0}, slo.Fail},
		{"cpu_throttled_seconds_etcd", "seconds", []float64{0, 1e-9}, slo.Pass},
		{"cpu_throttled_seconds_etcd", "seconds", []float64{0, 1}, slo.Fail},
		{"cpu_throttled_seconds_etcd", "seconds", []float64{0, 1, 0}, slo.Pass},
		{"cpu_throttled_seconds_etcd", "seconds", []float64{1, 0}, slo.Pass},
		{"peak_rss_bytes_etcd", "bytes", []float64{0, 1e9}, slo.Fail},
	} {
		r := look(t, entries(c.key, c.unit, steps(c.levels...)...), o)
		if len(r.Measures[0].Changes) != len(c.levels)-1 || r.Gate.Verdict != c.want {
			t.Errorf("%s %v: %s with %d changes, want %s", c.key, c.levels, r.Gate.Verdict, len(r.Measures[0].Changes), c.want)
		}
	}
}

// With hundreds of measures a change is found still; with more than a level can
// be shared among, the report says so.
func TestManyMeasures(t *testing.T) {
	changes := stats.NewChanges(1)
	many := func(n int) *history.File {
		r := rand.New(rand.NewPCG(3, 8))
		f := entries("pod_startup_p99_seconds", "seconds", slices.Concat(noisy(r, 15, 1), noisy(r, 15, 3))...)
		for i := range f.Entries {
			for k := range n - 1 {
				f.Entries[i].Measures[fmt.Sprintf("lifecycle_p99_seconds_%03d", k)] = slo.Measure{Value: 1, Unit: "seconds"}
			}
		}
		return f
	}
	if g := look(t, many(400), history.Options{FailAbove: 0.05, Changes: changes}).Gate; g.Verdict != slo.Fail || len(g.Failed) != 1 {
		t.Errorf("400 measures: %+v", g)
	}
	r := look(t, many(2000), history.Options{FailAbove: 0.05, Changes: changes})
	if want := "UNKNOWN: 2000 measures are too many to see a change in any; look at fewer (--measure)."; r.Conclusion() != want || len(r.Warnings) != 1 {
		t.Errorf("%q, want %q; %q", r.Conclusion(), want, r.Warnings)
	}
	none := look(t, &history.File{Scenario: "x", Entries: []history.Entry{{Name: "a", Started: time.Unix(1, 0)}}}, history.Options{FailAbove: 0.05, Changes: changes})
	if want := "UNKNOWN: there is no measure to look at."; none.Conclusion() != want {
		t.Errorf("%q, want %q", none.Conclusion(), want)
	}
}
