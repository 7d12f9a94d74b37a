package content

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

func TestResampledLinesKeepTheirExtremes(t *testing.T) {
	c := TimeChart{From: 10, Width: 0.5}
	l := Line{Mean: []Num{1, 3, 5, Num(math.NaN())}, Low: []Num{0, 2, 4, 0}, High: []Num{9, 4, 6, 0}}
	got := resampleLine(c, l, 10, grid{from: at(-1), width: time.Second, n: 4})
	nan := math.NaN()
	for name, c := range map[string]struct{ got, want []float64 }{
		"mean": {got.mean, []float64{nan, 2, 5, nan}}, "low": {got.low, []float64{nan, 0, 4, nan}}, "high": {got.high, []float64{nan, 9, 6, nan}},
	} {
		if !slices.EqualFunc(c.got, c.want, func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }) {
			t.Errorf("%s %v, want %v", name, c.got, c.want)
		}
	}
}

// An arm's line is the median of its runs; the shade holds the extremes of all.
func TestMiddleOfRuns(t *testing.T) {
	nan := math.NaN()
	line := medianLine("a", grid{width: time.Second, n: 2}, []resampled{
		{[]float64{1, nan}, []float64{0, nan}, []float64{2, nan}},
		{[]float64{5, 4}, []float64{5, 4}, []float64{5, 4}},
		{[]float64{3, 8}, []float64{3, 8}, []float64{70, 8}},
	})
	if line.Mean[0] != 3 || line.Low[0] != 0 || line.High[0] != 70 || line.Mean[1] != 6 {
		t.Errorf("line %+v", line)
	}
	if one := medianLine("a", grid{width: time.Second, n: 1}, []resampled{{[]float64{1}, []float64{1}, []float64{1}}}); one.High != nil {
		t.Error("a line without a spread has a shade")
	}
}

func TestColumnQuantile(t *testing.T) {
	counts := make([]int, run.Buckets)
	counts[run.Bucket(time.Millisecond)], counts[run.Bucket(time.Second)] = 98, 2
	if v := columnQuantile(counts, 0.5); v < 0.001 || v > 0.00122 {
		t.Errorf("p50 %v, want a bucket's end above 1 ms", v)
	}
	if v := columnQuantile(counts, 0.99); v < 1 || v > 1.22 {
		t.Errorf("p99 %v, want a bucket's end above 1 s", v)
	}
	if !math.IsNaN(columnQuantile(make([]int, 3), 0.5)) {
		t.Error("no call has a quantile")
	}
}

func TestSpreadsOfArms(t *testing.T) {
	one := func(p50 Num, first int, counts ...int) *Report {
		return &Report{Startup: []Spread{{Group: "g", Phase: "created to bound", N: 3, P50: p50, P90: 1, P99: Num(math.NaN()), Max: p50, First: first, Counts: counts}}}
	}
	got := spreadsOf([]Arm{{"A", []*Report{one(1, 5, 1, 2), one(4, 4, 3), one(2, 6, 3)}}, {"B", []*Report{one(9, 1, 3)}}})
	if len(got) != 2 || got[1].Arm != "B" || got[0].N != 9 || got[0].P50 != 2 || got[0].Max != 4 || got[0].First != 4 || !slices.Equal(got[0].Counts, []int{3, 1, 5}) {
		t.Errorf("spreads %+v", got)
	}
	if !math.IsNaN(float64(got[0].P99)) {
		t.Errorf("p99 %v of runs that have none", got[0].P99)
	}
}

func TestBreakdownAddsUp(t *testing.T) {
	var lives []tookApart
	for i := range 200 {
		lives = append(lives, tookApart{time.Duration(200-i) * time.Millisecond, time.Millisecond, 0})
	}
	b := newBreakdown("g", lives, 2)
	pods, sum := 0, 0.0
	for _, band := range b.Bands {
		pods += band.Objects
		sum += band.Total * float64(band.Objects)
	}
	if pods != 200 || len(b.Bands) != 4 || b.Bands[3].Objects != 2 || math.Abs(b.Bands[3].Parts[0]-0.1995) > 1e-9 || math.Abs(sum-(201*100*1e-3+200*1e-3)) > 1e-9 {
		t.Errorf("breakdown %+v", b)
	}
	if few := newBreakdown("g", lives[:1], 2); len(few.Bands) != 1 || few.Bands[0].Objects != 1 {
		t.Errorf("one pod gives %+v", few)
	}
}

func TestQueuesAddUpTheirSeries(t *testing.T) {
	store := series.NewStore()
	var defined []record.Series
	for _, name := range []string{"deployment", "replicaset"} {
		defined = append(defined, record.Series{Target: "etcd", Name: "etcd_server_proposals_pending", Labels: []record.Label{{Name: "queue", Value: name}}})
	}
	v := store.Visitor(&record.Stream{Series: defined})
	for _, s := range []struct {
		id    record.SeriesID
		at, v float64
	}{{0, 5, 3}, {1, 5, 4}, {0, 10, 100}, {0, 15, 0}} {
		v.Sample(record.Sample{Series: s.id, At: at(s.at), Value: s.v})
	}
	v.Gone(record.Gone{Series: 1, At: at(15)}) // it is served no longer
	all := longestGauges(collectGauges(store), "queues")
	want := []point{{at(5), 7}, {at(10), 104}, {at(15), 0}}
	if len(all) != 1 || !slices.Equal(all[0].points, want) || all[0].highestValue() != 104 {
		t.Errorf("%+v, want %v", all, want)
	}
}
