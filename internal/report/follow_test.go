package report

import (
	"errors"
	"math"
	"os"
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// growing copies the first part of a run's records into a new run directory and
// returns what copies more of them.
func growing(t *testing.T, d record.Dir) (record.Dir, func(share float64)) {
	t.Helper()
	raw, err := os.ReadFile(d.File(record.StreamFile))
	if err != nil {
		t.Fatal(err)
	}
	out, err := record.CreateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return out, func(share float64) {
		t.Helper()
		if err := os.WriteFile(out.File(record.StreamFile), raw[:int(share*float64(len(raw)))], 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// What a follower says of a whole run is what Build says of it, however often
// it has looked before, and also where the run was longer than it was drawn for.
func TestFollowerSeesWhatBuildSees(t *testing.T) {
	s := reporttest.Shape{Pods: 4000, Asked: 30, Rate: 60}
	d, m, err := reporttest.Write(t.TempDir(), s)
	if err != nil {
		t.Fatal(err)
	}
	want, err := Build(d, m, slo.Judgement{Verdict: slo.Unknown})
	if err != nil {
		t.Fatal(err)
	}
	if want.Duration < firstHorizon.Seconds() {
		t.Fatalf("the run takes %v s, too short for this test", want.Duration)
	}
	dir, grow := growing(t, d)
	grow(0.1)
	f, err := Follow(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got *Report
	pods := -1
	for _, share := range []float64{0.1, 0.2, 0.2, 0.55, 0.9, 1} {
		grow(share)
		if got, err = f.Report(m, slo.Judgement{Verdict: slo.Unknown}); err != nil {
			t.Fatal(err)
		}
		if got.Pods < pods || !got.Live {
			t.Errorf("%v of the records: %d pods after %d", share, got.Pods, pods)
		}
		pods = got.Pods
	}
	if err := errors.Join(f.Close(), f.Close()); err != nil {
		t.Error(err)
	}
	for what, pair := range map[string][2]any{
		"startup": {numbers(got.Startup), numbers(want.Startup)}, "steps": {got.Steps, want.Steps}, "pods": {got.Pods, want.Pods},
		"duration": {got.Duration, want.Duration}, "breakdown": {got.Breakdown, want.Breakdown}, "calls": {bare(got.Calls), bare(want.Calls)},
		"cpu": {got.Components[0].CPUSeconds, want.Components[0].CPUSeconds},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			t.Errorf("%s: followed %+v, built %+v", what, pair[0], pair[1])
		}
	}
	at, last := got.charts.Time[0], want.charts.To
	if end := at.From + at.Width*Num(len(at.Lines[0].Mean)); end < last || end > last+2*at.Width {
		t.Errorf("the load is drawn up to %v s of %v s", end, last)
	}
}

// bare are rows without the heat maps, whose columns are of other widths.
func bare(rows []CallRow) []CallRow {
	var out []CallRow
	for _, r := range rows {
		r.heat = nil
		out = append(out, r)
	}
	return out
}

// numbers have no NaN, which is not equal to itself.
func numbers(all []Spread) []Spread {
	var out []Spread
	for _, s := range all {
		for _, v := range []*Num{&s.P50, &s.P90, &s.P99, &s.Max} {
			if math.IsNaN(float64(*v)) {
				*v = -1
			}
		}
		out = append(out, s)
	}
	return out
}

func TestFollowerOfNothing(t *testing.T) {
	dir, err := record.CreateDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Follow(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no records: %v", err)
	}
	if err := os.WriteFile(dir.File(record.StreamFile), []byte("win"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Follow(dir); !errors.Is(err, record.ErrNotRecords) {
		t.Errorf("half a header: %v", err)
	}
}

// A phase that may have been reached before it was seen bounds a duration, and
// what a scenario declares besides is not counted as a pod.
func TestUnsurePhases(t *testing.T) {
	lives := newAllLives()
	l := lives.pods
	s := &record.Stream{Objects: []record.Object{
		{Resource: "pods", Group: "g"}, {Resource: "pods", Group: "g", Life: "mine"}, {Resource: "pods", Group: "g"},
	}}
	see := func(object record.ObjectID, phase string, seconds, within float64) {
		lives.visit(s, record.Phase{Object: object, Phase: phase, At: at(seconds), Within: at(within).Sub(0)})
	}
	see(0, record.PhaseCreated, 1, 0)
	see(0, record.PhaseUnknown, 4, 2)
	see(0, record.PhaseBound, 4, 2) // between 2 and 4 s
	see(1, record.PhaseCreated, 1, 0)
	see(2, record.PhaseCreated, 2, 0)
	lives.visit(s, record.Phase{Object: 2, Phase: record.PhaseBound, At: at(3), Within: record.Ever})
	tally := &tally{lives: lives, end: at(9)}
	if l.count() != 2 {
		t.Errorf("%d pods, want 2", l.count())
	}
	toBound := podStretches()[1]
	for i, want := range map[int32][2]float64{0: {1, 3}, 1: {0, 1}} {
		lo, hi := l.between(i, toBound)
		if !l.unsure(i, toBound) || lo.Seconds() != want[0] || hi.Seconds() != want[1] {
			t.Errorf("pod %d took %v to %v, want %v s", i, lo, hi, want)
		}
	}
	for _, spread := range tally.spreads(l, podStretches()) {
		if spread.Phase == "created to bound" && (spread.N != 0 || spread.Open != 2) {
			t.Errorf("known %d, not %d", spread.N, spread.Open)
		}
	}
	if _, ok := tally.apart(l, 0, podParting()); ok {
		t.Error("the startup of a pod whose phases are not sure is taken apart")
	}
}

func BenchmarkFollow(b *testing.B) {
	d, m, err := reporttest.Write(b.TempDir(), reporttest.Shape{})
	if err != nil {
		b.Fatal(err)
	}
	f, err := Follow(d)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	size := 0
	for b.Loop() {
		r, err := f.Report(m, slo.Judgement{})
		if err != nil {
			b.Fatal(err)
		}
		p, err := r.Page()
		if err != nil {
			b.Fatal(err)
		}
		raw, err := p.JSON()
		if err != nil {
			b.Fatal(err)
		}
		size = len(raw)
	}
	b.ReportMetric(float64(size), "B/page")
}
