package stats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/stats"
)

func TestRank(t *testing.T) {
	for _, c := range []struct {
		n    int
		q    float64
		want int
	}{
		{1, 0.99, 1}, {2, 0.5, 1}, {3, 0.5, 2}, {100, 0.99, 99}, {101, 0.99, 100}, {99, 0.99, 99},
		{1000, 0.999, 999}, {10_000, 0.9999, 9999}, {10, 0, 1}, {10, 1, 10},
		{3000, 0.9, 2700}, {700, 0.07, 49}, {10_000_000, 0.9999, 9_999_000},
	} {
		if got := stats.Rank(c.n, c.q); got != c.want {
			t.Errorf("Rank(%d, %v) = %d, want %d", c.n, c.q, got, c.want)
		}
	}
}

// The ranks are those of published tables and of direct summation.
func TestIntervalRanks(t *testing.T) {
	for _, c := range []struct {
		n      int
		q      float64
		lo, hi int
	}{
		{5, 0.5, 0, 6},   // 0.5^5 > 0.025 on each side
		{6, 0.5, 1, 6},   // 0.5^6 = 0.0156
		{10, 0.5, 2, 9},  // the classic: second and ninth of ten
		{20, 0.5, 6, 15}, // the classic: sixth and fifteenth of twenty
		{100, 0.5, 40, 61},
		{367, 0.99, 359, 368}, // 0.99^367 = 0.02501: just too few for an upper end
		{368, 0.99, 360, 368}, // 0.99^368 = 0.02476
	} {
		lo, hi := stats.Interval(c.n, c.q, 0.95)
		if lo != c.lo || hi != c.hi {
			t.Errorf("Interval(%d, %v) = %d, %d, want %d, %d", c.n, c.q, lo, hi, c.lo, c.hi)
		}
	}
}

// For many values the binomial is nearly normal, whatever the arguments' size.
func TestIntervalOfManyValuesIsNearlyNormal(t *testing.T) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		for _, q := range []float64{0.5, 0.9, 0.99, 0.999} {
			lo, hi := stats.Interval(n, q, 0.95)
			half := 1.959964 * math.Sqrt(float64(n)*q*(1-q))
			mid := float64(n) * q
			if math.Abs(float64(lo)-(mid-half)) > 3 || math.Abs(float64(hi)-(mid+half)) > 3 {
				t.Errorf("n %d q %v: %d..%d, nearly normal would be %.1f..%.1f", n, q, lo, hi, mid-half, mid+half)
			}
		}
	}
}

// The promise of the interval: over many samples of a known source, it holds
// the true quantile in 95 % of them at least, and not in nearly all.
func TestIntervalHoldsTheTrueQuantile(t *testing.T) {
	const rounds = 1500
	rng := rand.New(rand.NewPCG(7, 11))
	for _, c := range []struct {
		n int
		q float64
	}{{30, 0.5}, {200, 0.9}, {600, 0.99}} {
		truth := -math.Log(1-c.q) * 0.1 // quantile of the exponential distribution of mean 100 ms
		held := 0
		for range rounds {
			var d stats.Durations
			for range c.n {
				d.Add(time.Duration(rng.ExpFloat64() * 1e8))
			}
			if e := d.Quantile(c.q); e.Interval[0] <= truth && truth <= e.Interval[1] {
				held++
			}
		}
		share := float64(held) / rounds
		if share < 0.94 || share > 0.985 {
			t.Errorf("n %d q %v: the interval held the true quantile in %.1f %% of samples", c.n, c.q, 100*share)
		}
	}
}

func TestQuantilesOfDurations(t *testing.T) {
	var d stats.Durations
	for i := range 1000 {
		d.Add(time.Duration(1000-i) * time.Millisecond)
	}
	e := d.Quantile(0.99)
	if e.Value != 0.99 || !e.Exact() || !e.Bounded() || e.Samples != 1000 || len(e.Warnings) != 0 {
		t.Errorf("p99 of 1..1000 ms = %+v", e)
	}
	if e.Interval[0] >= 0.99 || e.Interval[1] <= 0.99 {
		t.Errorf("interval %v does not hold its value", e.Interval)
	}
	if m := d.Max(); m.Value != 1 || len(m.Warnings) != 0 {
		t.Errorf("max = %+v", m)
	}
	if m := d.Mean(); math.Abs(m.Value-0.5005) > 1e-12 || math.Abs(m.Interval[1]-m.Value-0.01790) > 1e-4 {
		t.Errorf("mean = %+v", m)
	}
}

func TestFewSamplesWarn(t *testing.T) {
	var d stats.Durations
	if e := d.Quantile(0.99); e.Samples != 0 || e.Bounded() {
		t.Errorf("empty sample: %+v", e)
	}
	for i := range 200 {
		if i == 50 {
			if e := d.Quantile(0.99); e.Bounded() || len(e.Warnings) != 1 || e.Warnings[0] != "only 50 samples: the p99 is the largest value" {
				t.Errorf("50 samples: %+v", e)
			}
		}
		d.Add(time.Duration(i) * time.Second)
	}
	e := d.Quantile(0.99)
	if e.Bounded() || len(e.Warnings) != 1 || math.IsInf(e.Interval[0], -1) || !math.IsInf(e.Interval[1], 1) {
		t.Errorf("200 samples: %+v", e)
	}
}

// Values that did not end widen what is known of the sample, and nothing more.
func TestUnendedValues(t *testing.T) {
	var d stats.Durations
	for i := range 990 {
		d.Add(time.Duration(i+1) * time.Millisecond)
	}
	for range 10 {
		d.AddBetween(20*time.Second, stats.Forever)
	}
	if e := d.Quantile(0.5); !e.Exact() || e.Value != 0.5 || len(e.Warnings) != 0 {
		t.Errorf("p50 is untouched by the ten slowest: %+v", e)
	}
	if e := d.Quantile(0.99); !e.Exact() || e.Value != 0.99 {
		t.Errorf("p99 is the last that ended: %+v", e)
	}
	e := d.Quantile(0.999)
	if e.Low != 20 || !math.IsInf(e.High, 1) || e.Value != 20 || len(e.Warnings) == 0 {
		t.Errorf("p99.9 has not ended: %+v", e)
	}
	var young stats.Durations
	young.Merge(&d)
	young.AddBetween(time.Microsecond, stats.Forever)
	if e := young.Quantile(0.5); e.Low != 0.5 || e.High != 0.501 || e.Value != 0.501 {
		t.Errorf("one that has only begun may end early or late: %+v", e)
	}
	if m := young.Mean(); !math.IsInf(m.High, 1) || !math.IsInf(m.Interval[1], 1) {
		t.Errorf("mean with unended values is unbounded: %+v", m)
	}
}

func TestAddAfterSort(t *testing.T) {
	var d stats.Durations
	for i := range 100_000 {
		d.Add(time.Duration((i * 7919) % 100_000))
		if i%30_000 == 0 {
			d.Sort()
		}
	}
	got := d.Sorted()
	if len(got) != 100_000 || !slices.IsSorted(got) || got[99_999] != 99_999 {
		t.Errorf("%d values, sorted %v", len(got), slices.IsSorted(got))
	}
}

func FuzzQuantileIsAValueBetweenItsBounds(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 201}, 0.99)
	f.Add([]byte{0}, 0.0)
	f.Fuzz(func(t *testing.T, raw []byte, q float64) {
		if !(q >= 0 && q <= 1) || len(raw) == 0 {
			return
		}
		var d stats.Durations
		var ended []float64
		for _, b := range raw {
			v := time.Duration(b&0x7f) * time.Second
			if b&0x80 != 0 {
				d.AddBetween(v, v+2*time.Second)
				continue
			}
			d.Add(v)
			ended = append(ended, v.Seconds())
		}
		e := d.Quantile(q)
		if e.Low > e.High || e.Value < e.Low || e.Value > e.High || e.Samples != len(raw) {
			t.Fatalf("%+v", e)
		}
		if e.Interval[0] > e.Value || e.Interval[1] < e.Low {
			t.Fatalf("interval %v beside the value: %+v", e.Interval, e)
		}
		if len(ended) == len(raw) && !slices.Contains(ended, e.Value) {
			t.Fatalf("%v was never measured", e.Value)
		}
	})
}

func TestHistogramQuantile(t *testing.T) {
	h := stats.Histogram{{0.05, 900}, {0.1, 980}, {1, 995}, {1.25, 1000}, {math.Inf(1), 1000}}
	e := h.Quantile(0.99)
	if e.Low != 0.1 || e.High != 1 || math.Abs(e.Value-0.7) > 1e-9 || e.Samples != 1000 {
		t.Errorf("p99 = %+v, want 0.7 in (0.1, 1]", e)
	}
	if e.Interval != [2]float64{0.1, 1.25} { // ranks 984 to 996
		t.Errorf("interval = %v", e.Interval)
	}
	if e := h.Quantile(0.5); e.Low != 0 || e.High != 0.05 || math.Abs(e.Value-0.05*500/900) > 1e-9 {
		t.Errorf("p50 = %+v", e)
	}
	h[4].Count = 1200
	if e := h.Quantile(0.99); e.Low != 1.25 || !math.IsInf(e.High, 1) || e.Value != 1.25 || len(e.Warnings) != 1 {
		t.Errorf("p99 above the last bound = %+v", e)
	}
	if e := (stats.Histogram{{1, 0}, {math.Inf(1), 0}}).Quantile(0.99); e.Samples != 0 {
		t.Errorf("empty histogram = %+v", e)
	}
}

func TestHistogramIsMended(t *testing.T) {
	h, raised := stats.Histogram{{1, 5}, {2, 3}, {math.Inf(1), 9}}.Mended()
	if raised != 2 || h[1].Count != 5 || h[2].Count != 9 {
		t.Errorf("mended %v, raised %v", h, raised)
	}
}

// A histogram's bucket holds the quantile of the values it was made of.
func FuzzHistogramBucketHoldsTheQuantile(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 255}, 0.99)
	f.Fuzz(func(t *testing.T, raw []byte, q float64) {
		if !(q >= 0 && q <= 1) || len(raw) == 0 {
			return
		}
		h := stats.Histogram{{10, 0}, {100, 0}, {200, 0}, {math.Inf(1), 0}}
		for _, b := range raw {
			for i := range h {
				if float64(b) <= h[i].UpTo {
					h[i].Count++
				}
			}
		}
		slices.Sort(raw)
		want := float64(raw[stats.Rank(len(raw), q)-1])
		e := h.Quantile(q)
		if want < e.Low || want > e.High || e.Value < e.Low || e.Value > e.High {
			t.Fatalf("quantile %v, estimate %+v", want, e)
		}
	})
}

func TestNames(t *testing.T) {
	for name, q := range map[string]float64{"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999, "p100": 1} {
		if got, ok := stats.Parse(name); !ok || math.Abs(got-q) > 1e-12 {
			t.Errorf("Parse(%q) = %v, %v", name, got, ok)
		}
		if got := stats.Name(q); got != name {
			t.Errorf("Name(%v) = %q", q, got)
		}
	}
	for _, bad := range []string{"", "p", "99", "p0", "p101", "pNaN", "p-1", "max", "p+5"} {
		if q, ok := stats.Parse(bad); ok {
			t.Errorf("Parse(%q) = %v, want a refusal", bad, q)
		}
	}
}

func ExampleDurations_Quantile() {
	var latencies stats.Durations
	for i := range 2000 {
		latencies.Add(time.Duration(i) * time.Millisecond)
	}
	p99 := latencies.Quantile(0.99)
	fmt.Printf("%.3f s, 95 %% interval %.3f..%.3f s, %d samples\n", p99.Value, p99.Interval[0], p99.Interval[1], p99.Samples)
	// Output: 1.979 s, 95 % interval 1.970..1.988 s, 2000 samples
}

func BenchmarkTenMillionLatencies(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		var d stats.Durations
		for range 10_000_000 {
			d.Add(time.Duration(rng.ExpFloat64() * 1e7))
		}
		d.Quantile(0.99)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1e7, "ns/value")
}

// Whatever its values are, a sample is sorted as the slice of them is, also when
// more are added to one that was sorted.
func TestSamplesAreSorted(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for _, n := range []int{1, 100, manyDurations} {
		d, want := &stats.Durations{}, []int64(nil)
		for round := range 3 {
			for i := range n {
				v := int64(rng.ExpFloat64() * 1e7)
				switch i % 50 {
				case 1:
					v = -v
				case 2:
					v *= 1000 // above 4.3 s
				case 3:
					v = math.MaxUint32 + int64(rng.IntN(3)) - 1
				}
				d.Add(time.Duration(v))
				want = append(want, v)
			}
			slices.Sort(want)
			if got := d.Sorted(); !slices.Equal(got, want) {
				t.Fatalf("%d values, round %d: they are not in order", n, round)
			}
			for _, q := range []float64{0, 0.01, 0.5, 0.99, 1} {
				if got, exact := d.Quantile(q).Value, float64(want[stats.Rank(len(want), q)-1])/1e9; got != exact {
					t.Errorf("%d values: quantile %v is %v, want %v", n, q, got, exact)
				}
			}
		}
	}
}

// manyDurations are sorted digit by digit.
const manyDurations = 20_000

func BenchmarkSort(b *testing.B) {
	const n = 1_000_000
	values := make([]time.Duration, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range values {
		values[i] = time.Duration(rng.ExpFloat64() * 1e7)
	}
	for b.Loop() {
		d := &stats.Durations{}
		for _, v := range values {
			d.Add(v)
		}
		d.Sort()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
}
