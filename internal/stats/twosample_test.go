package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/stats"
)

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), math.Abs(b))
}

func TestMedian(t *testing.T) {
	six := stats.Median([]float64{6, 1, 5, 2, 4, 3})
	if six.Value != 3.5 || six.Interval != [2]float64{1, 6} || len(six.Warnings) > 0 {
		t.Errorf("median of six: %+v", six)
	}
	five := stats.Median([]float64{5, 1, 2, 4, 3})
	if five.Value != 3 || five.Bounded() || len(five.Warnings) != 1 {
		t.Errorf("median of five: %+v", five)
	}
	if none := stats.Median(nil); none.Samples != 0 || none.Bounded() {
		t.Errorf("median of nothing: %+v", none)
	}
}

// The p-values of complete separation are 2 of all arrangements.
func TestMannWhitney(t *testing.T) {
	for _, c := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 0.1},
		{[]float64{5, 4, 3, 2, 1}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{[]float64{1, 4}, []float64{2, 3}, 1},
		{[]float64{1, 1}, []float64{1, 1}, 1},
		{nil, []float64{1}, 1},
	} {
		before := slices.Clone(c.a)
		if got := stats.MannWhitney(c.a, c.b); !near(got, c.want) {
			t.Errorf("%v, %v: p %v, want %v", c.a, c.b, got, c.want)
		}
		if !slices.Equal(before, c.a) {
			t.Errorf("the sample was changed: %v", c.a)
		}
	}
}

// The interval holds what the Mann-Whitney test does not reject: with 4 values
// a side all pairs but none, with 5 all but the 2 outermost of each end.
func TestRatio(t *testing.T) {
	four := stats.Ratio([]float64{1, 2, 4, 8}, []float64{2, 4, 8, 16})
	if !near(four.Value, 2) || !near(four.Interval[0], 0.25) || !near(four.Interval[1], 16) {
		t.Errorf("four: %+v", four)
	}
	if three := stats.Ratio([]float64{1, 2, 3}, []float64{1, 2, 3}); three.Interval != [2]float64{0, math.Inf(1)} || len(three.Warnings) != 1 {
		t.Errorf("three: %+v", three)
	}
	r := rand.New(rand.NewPCG(1, 1))
	held := 0
	const trials = 1000
	for range trials {
		a, b := draw(r, 8, 1), draw(r, 8, 1.3)
		e := stats.Ratio(a, b)
		in := e.Interval[0] < 1.3 && 1.3 < e.Interval[1]
		if in {
			held++
		}
		// The interval leaves 1 out just when the test rejects.
		if out := e.Interval[0] > 1 || e.Interval[1] < 1; out != (stats.MannWhitney(a, b) <= 0.05) {
			t.Fatalf("interval %v, p %v", e.Interval, stats.MannWhitney(a, b))
		}
	}
	if held < 940 || held > 980 {
		t.Errorf("the interval held the true ratio in %d of %d, want 95 %%", held, trials)
	}
}

// draw returns values of a skewed distribution.
func draw(r *rand.Rand, n int, scale float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = scale * r.ExpFloat64()
	}
	return out
}

func TestLargeSamplesHaveAnInterval(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 1))
	e := stats.Ratio(draw(r, 60, 1), draw(r, 60, 1))
	if !e.Bounded() || e.Interval[0] >= e.Value || e.Interval[1] <= e.Value {
		t.Errorf("%+v", e)
	}
}

func TestPermute(t *testing.T) {
	apart := []float64{1, 1.1, 1.2, 1.3, 1.4, 2, 2.1, 2.2, 2.3, 2.4}
	mixed := []float64{1, 2, 3, 4, 5, 5, 4, 3, 2, 1}
	p := stats.Permute(5, [][]float64{mixed, apart, {7, 7, 7, 7, 7, 7, 7, 7, 7, 7}}, 1)
	if !near(p[1], 2.0/252) || p[0] != 1 || p[2] != 1 {
		t.Errorf("p %v, want 1, 2 of 252, 1", p)
	}
	// One measure many times over costs nothing.
	if same := stats.Permute(5, slices.Repeat([][]float64{apart}, 40), 1); !near(same[7], 2.0/252) {
		t.Errorf("p %v of forty that are one", same[7])
	}
	if got := stats.Permute(5, nil, 1); len(got) != 0 {
		t.Errorf("nothing: %v", got)
	}
	// One outlier, the tenth run, does not hide what the others show: answers that
	// took a tenth longer, in ms, of a machine that was taken away for a while.
	outlier := []float64{42.3, 42.6, 42.8, 43, 42.9, 42.5, 43.2, 43.4, 43.3, 92.4, 47.1, 46.8, 47.4, 50.7, 51.3, 52.7, 47.6, 48.1, 47.7, 47.9}
	if p := stats.Permute(10, [][]float64{outlier}, 1); p[0] > 0.003 {
		t.Errorf("p %v beside an outlier", p)
	}
	// More than can all be tried: the same seed gives the same.
	r := rand.New(rand.NewPCG(3, 1))
	many := [][]float64{slices.Concat(draw(r, 12, 1), draw(r, 12, 30)), draw(r, 24, 1)}
	first := stats.Permute(12, many, 5)
	if !slices.Equal(first, stats.Permute(12, many, 5)) || first[0] > 0.01 || first[1] < 0.05 {
		t.Errorf("random: %v", first)
	}
}

func TestRuns(t *testing.T) {
	if n := stats.MinRuns(0.05); n != 4 {
		t.Errorf("least runs %d, want 4", n)
	}
	if n := stats.Runs(0.1, 0.001, 0.05); n != 4 {
		t.Errorf("hardly any spread: %d runs, want 4", n)
	}
	if n := stats.Runs(0.0001, 1, 0.05); n != stats.MaxRuns {
		t.Errorf("hopeless: %d runs", n)
	}
	n := stats.Runs(0.1, 0.1, 0.01)
	if stats.Visible(n, 0.1, 0.01) > 0.1 || stats.Visible(n-1, 0.1, 0.01) <= 0.1 {
		t.Errorf("%d runs show %v", n, stats.Visible(n, 0.1, 0.01))
	}
	if !math.IsInf(stats.Visible(1, 0.1, 0.05), 1) {
		t.Error("one run a side shows something")
	}
	// The tables of Cohen, Statistical Power Analysis: effect 1, 5 % two-sided,
	// power 0.8 takes 17 a side.
	if n := stats.Runs(math.Expm1(0.1), 0.1, 0.05); n < 16 || n > 18 {
		t.Errorf("%d runs for an effect of one standard deviation, want about 17", n)
	}
}

func TestSpread(t *testing.T) {
	if s := stats.Spread([]float64{1, math.E}, []float64{5, 5 * math.E}); !near(s, math.Sqrt(0.5)) {
		t.Errorf("spread %v", s)
	}
	if stats.Spread([]float64{0, 1}, []float64{1, 1}) != 0 || stats.Spread([]float64{1}, []float64{2}) != 0 {
		t.Error("spread of what has none")
	}
}
