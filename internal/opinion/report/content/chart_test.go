package content

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

func at(s float64) clock.Time { return clock.Time(s * float64(time.Second)) }

func TestGridHoldsItsSpan(t *testing.T) {
	for _, c := range []struct {
		seconds float64
		most    int
		least   time.Duration
		width   time.Duration
	}{
		{0, 600, 0, 100 * time.Millisecond},
		{59.9, 600, 0, 100 * time.Millisecond},
		{60, 600, 0, 200 * time.Millisecond},
		{60, 600, time.Second, time.Second},
		{3600, 600, 0, 10 * time.Second},
		{90 * 86400, 600, 0, 4 * time.Hour},
	} {
		s := span{at(7), at(7 + c.seconds)}
		g := newGrid(s, c.most, c.least)
		if g.width != c.width {
			t.Errorf("%v s in %d bins: width %v, want %v", c.seconds, c.most, g.width, c.width)
		}
		if g.n > c.most || g.bin(s.from) != 0 || g.bin(s.to) != g.n-1 {
			t.Errorf("%v s in %d bins: %d bins, ends in %d and %d", c.seconds, c.most, g.n, g.bin(s.from), g.bin(s.to))
		}
	}
}

// However far a line is condensed, its greatest and least values stay.
func TestCondensedLinesKeepTheirPeaks(t *testing.T) {
	values := make([]float64, 36_000)
	for i := range values {
		values[i] = 10
	}
	values[12_345], values[23_456] = 5000, -3
	line, g := condenseLine("x", grid{width: time.Second, n: len(values)}, values, chartBins)
	if len(line.Mean) > chartBins || g.n != len(line.Mean) {
		t.Fatalf("%d points on a grid of %d, at most %d wanted", len(line.Mean), g.n, chartBins)
	}
	if slices.Max(line.High) != 5000 || slices.Min(line.Low) != -3 {
		t.Errorf("extremes are %v and %v, want -3 and 5000", slices.Min(line.Low), slices.Max(line.High))
	}
	if short, _ := condenseLine("x", grid{width: time.Second, n: 600}, values[:600], chartBins); short.High != nil || len(short.Mean) != 600 {
		t.Error("a line with room for every value was condensed")
	}
}

func TestRatesAreOverASecond(t *testing.T) {
	g, rates := perSecond(grid{width: 100 * time.Millisecond, n: 20}, slices.Repeat([]float64{1, 3}, 10), time.Second)
	if g.width != time.Second || !slices.Equal(rates, []float64{20, 20}) {
		t.Errorf("rates %v per %v", rates, g.width)
	}
}

func TestSpreadCountsWhatDidNotEnd(t *testing.T) {
	var d stats.Durations
	for i := range 97 {
		d.Add(time.Duration(i+1) * time.Millisecond)
	}
	for range 3 {
		d.AddBetween(20*time.Second, stats.Forever)
	}
	s := newSpread("g", "p", &d)
	if s.N != 97 || s.Open != 3 || s.P50 != 0.05 || s.P99 != 20 {
		t.Errorf("spread %+v", s)
	}
	sum := 0
	for _, n := range s.Counts {
		sum += n
	}
	if sum != 97 {
		t.Errorf("%d durations in buckets, want 97", sum)
	}
}

// A sample that came late is no burst: its rise lies over all of the gap.
func TestRatesOfCounters(t *testing.T) {
	got := ratesOf([]point{{at(1), 2}, {at(2), 2.5}, {at(10), 2.75}, {at(11), 0.1}})
	want := []point{{at(2), 0.5}, {at(10), 0.25 / 8}, {at(11), 0.1}}
	if !slices.EqualFunc(got, want, func(a, b point) bool { return a.at == b.at && math.Abs(a.value-b.value) < 1e-9 }) {
		t.Errorf("rates %v, want %v", got, want)
	}
}

func TestSampledLinesFillTheirGaps(t *testing.T) {
	g := grid{width: time.Second, n: 6}
	points := []point{{at(1.1), 4}, {at(1.9), 8}, {at(4.5), 2}}
	nan := math.NaN()
	for _, c := range []struct {
		ahead bool
		want  []float64
	}{
		{true, []float64{nan, 6, 2, 2, 2, nan}},
		{false, []float64{nan, 6, 8, 8, 2, 2}},
	} {
		line := samplePoints("x", g, points, c.ahead)
		for i, v := range line.Mean {
			if w := c.want[i]; float64(v) != w && !(math.IsNaN(w) && math.IsNaN(float64(v))) {
				t.Errorf("ahead %v: second %d is %v, want %v", c.ahead, i, v, w)
			}
		}
		if line.High[1] != 8 || line.Low[1] != 4 {
			t.Errorf("extremes of second 1 are %v and %v", line.Low[1], line.High[1])
		}
	}
}

func TestNumbersAreShort(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1.0 / 3: "0.33333", 1234567: "1234600", 1.5: "1.5", math.Inf(1): "null", math.NaN(): "null", 1e-7: "1e-07", -2: "-2",
	} {
		if got, err := Num(v).MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestCellsCanBeReadBack(t *testing.T) {
	const width = run.Buckets
	got := encodeCells(map[int]int{3*width + 7: 2, 3*width + 9: 1, 5 * width: 4})
	if want := []int{3, 7, 2, 0, 9, 1, 2, 0, 4}; !slices.Equal(got, want) {
		t.Errorf("cells %v, want %v", got, want)
	}
}

func TestObjectivesAreRankedWorstFirst(t *testing.T) {
	v := func(f float64) *float64 { return &f }
	got := rankObjectives([]slo.Result{
		{Name: "near", Value: v(0.9), Threshold: 1, Verdict: slo.Pass},
		{Name: "unmeasured", Threshold: 1, Verdict: slo.Unknown},
		{Name: "slow", Value: v(10), Threshold: 20, AtLeast: true, Verdict: slo.Fail},
		{Name: "far", Value: v(0.1), Threshold: 1, Verdict: slo.Pass},
		{Name: "bad", Value: v(3), Threshold: 1, Verdict: slo.Fail},
		{Name: "torn", Value: v(1.1), Threshold: 1, Verdict: slo.Unknown},
		{Name: "none", Value: v(0), Threshold: 5, AtLeast: true, Verdict: slo.Fail},
	})
	var names []string
	for _, o := range got {
		names = append(names, o.Name)
	}
	if want := []string{"none", "bad", "slow", "torn", "unmeasured", "near", "far"}; !slices.Equal(names, want) {
		t.Errorf("order %v, want %v", names, want)
	}
}

func TestTitles(t *testing.T) {
	for _, c := range []struct {
		r    slo.Result
		want string
	}{
		{slo.Result{Name: "pod startup", Statistic: "p99", Labels: map[string]string{"phase": "startup"}}, "p99 of pod startup"},
		{slo.Result{Name: "mutating calls", Statistic: "p99", Labels: map[string]string{"verb": "PATCH", "resource": "pods", "subresource": "status", "scope": "resource"}}, "p99 of mutating calls (PATCH pods/status)"},
		{slo.Result{Name: "lists", Statistic: "p99", Labels: map[string]string{"verb": "LIST", "resource": "pods", "scope": "cluster"}}, "p99 of lists (LIST pods cluster)"},
		{slo.Result{SLI: "pods-running-rate", Labels: map[string]string{"group": "fill", "zone": "a"}}, "pods-running-rate (group fill zone a)"},
	} {
		if got := (Objective{Result: c.r}).Title(); got != c.want {
			t.Errorf("title %q, want %q", got, c.want)
		}
	}
}

func TestWarningsAreSaidOnce(t *testing.T) {
	facts := &run.Facts{Events: []record.Event{
		{Type: record.EventWarned, Text: "no cgroups"}, {Type: record.EventDied, Name: "etcd", Text: "killed"}, {Type: record.EventWarned, Text: "no cgroups"},
	}}
	got := listWarnings(facts, record.Manifest{Warnings: []string{"no cgroups.", "slow disk"}})
	if want := []string{"no cgroups.", "etcd died: killed.", "slow disk."}; !slices.Equal(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}
}
