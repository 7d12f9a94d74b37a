package stats_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// The intervals of Clopper and Pearson, as R's binom.test gives them.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		k, n   int
		lo, hi float64
	}{{3, 3, 0.2924018, 1}, {0, 3, 0, 0.7075982}, {5, 10, 0.1870860, 0.8129140}, {10, 10, 0.6915029, 1}} {
		e := stats.Share(c.k, c.n)
		if math.Abs(e.Interval[0]-c.lo) > 1e-6 || math.Abs(e.Interval[1]-c.hi) > 1e-6 || e.Value != float64(c.k)/float64(c.n) {
			t.Errorf("%d of %d: %+v, want %v to %v", c.k, c.n, e, c.lo, c.hi)
		}
	}
	if e := stats.Share(0, 0); e.Samples != 0 {
		t.Errorf("nothing: %+v", e)
	}
}

func TestKnee(t *testing.T) {
	curve := func(xs []float64, f func(float64) float64) (out []stats.Point) {
		for _, x := range xs {
			out = append(out, stats.Point{X: x, Y: f(x)})
		}
		return out
	}
	xs := []float64{100, 200, 300, 400, 500, 600, 700, 800, 900}
	queue := curve(xs, func(x float64) float64 { return 1 / (1 - x/1000) }) // waiting in a queue with one server
	slices.Reverse(queue)
	if k, ok := stats.Knee(queue); !ok || k.X < 600 || k.X > 800 {
		t.Errorf("a queue: %+v, %v", k, ok)
	}
	for name, f := range map[string]func(float64) float64{
		"line":    func(x float64) float64 { return 3 + x },
		"falling": func(x float64) float64 { return 1 / x },
		"flat":    func(float64) float64 { return 1 },
		"concave": math.Sqrt,
	} {
		if k, ok := stats.Knee(curve(xs, f)); ok {
			t.Errorf("%s: a knee at %+v", name, k)
		}
	}
	if _, ok := stats.Knee(queue[:4]); ok {
		t.Error("four points have a knee")
	}
}

// grown draws values of a shape with 2 % of spread.
func grown(r *rand.Rand, sizes []float64, f func(float64) float64) (out []stats.Point) {
	for _, x := range sizes {
		out = append(out, stats.Point{X: x, Y: f(x) * math.Exp(0.02*r.NormFloat64())})
	}
	return out
}

// Each shape is known by its own points, and its projection to twice the size
// holds the truth about as often as it says.
func TestGrow(t *testing.T) {
	sizes := []float64{100, 200, 400, 800, 1600, 3200, 6400}
	r := rand.New(rand.NewPCG(1, 3))
	for _, c := range []struct {
		shape stats.Shape
		f     func(float64) float64
		lo    float64 // of what doubling does
		hi    float64
	}{
		{stats.Constant, func(float64) float64 { return 50 }, 0.97, 1.03},
		{stats.Linear, func(x float64) float64 { return 100 + 0.5*x }, 1.3, 2},
		{stats.Quadratic, func(x float64) float64 { return 100 + 1e-3*x*x }, 1.5, 4},
	} {
		const trials = 20
		known, held := 0, 0
		for i := range uint64(trials) {
			g, ok := stats.Grow(grown(r, sizes, c.f), i)
			if !ok {
				t.Fatal("no fit")
			}
			if g.Best.Shape == c.shape {
				known++
			}
			if e := g.Project(12800); e.Interval[0] <= c.f(12800) && c.f(12800) <= e.Interval[1] {
				held++
			}
			if d := g.Doubling; d.Value < c.lo || d.Value > c.hi || d.Interval[0] > d.Value || d.Interval[1] < d.Value {
				t.Errorf("%s: doubling %+v", c.shape, d)
			}
		}
		if known < 16 || held < 16 {
			t.Errorf("%s: known in %d and held in %d of %d", c.shape, known, held, trials)
		}
	}
}

func TestGrowWantsEnough(t *testing.T) {
	for name, p := range map[string][]stats.Point{
		"four points": {{X: 1, Y: 1}, {X: 2, Y: 2}, {X: 3, Y: 3}, {X: 4, Y: 4}},
		"two sizes":   {{X: 1, Y: 1}, {X: 1, Y: 1}, {X: 1, Y: 1}, {X: 2, Y: 4}, {X: 2, Y: 4}},
		"nothing":     nil,
		"zero":        {{X: 1, Y: 0}, {X: 2, Y: 2}, {X: 3, Y: 3}, {X: 4, Y: 4}, {X: 5, Y: 5}},
	} {
		if g, ok := stats.Grow(p, 1); ok {
			t.Errorf("%s: %+v", name, g)
		}
	}
	exact, ok := stats.Grow([]stats.Point{{X: 1, Y: 3}, {X: 2, Y: 5}, {X: 3, Y: 7}, {X: 4, Y: 9}, {X: 5, Y: 11}}, 1)
	if !ok || exact.Best.Shape != stats.Linear || math.Abs(exact.Best.A-1) > 1e-3 || math.Abs(exact.Best.B-2) > 1e-3 {
		t.Errorf("a line without noise: %+v", exact.Best)
	}
	if e := exact.Project(10); math.Abs(e.Value-21) > 1e-2 || e.Interval[1]-e.Interval[0] > 0.1 {
		t.Errorf("projected: %+v", e)
	}
}

// A sequence without a change shows one as rarely as its level says, one with a
// change shows it where it is.
func TestChanges(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	c := stats.NewChanges(1)
	draw := func(level float64, n int) (out []float64) {
		for range n {
			out = append(out, level*math.Exp(0.05*r.NormFloat64()))
		}
		return out
	}
	alarms, found := 0, 0
	const trials = 300
	for range trials {
		if len(c.Find(draw(1, 30), 0.01)) > 0 {
			alarms++
		}
		if got := c.Find(slices.Concat(draw(1, 20), draw(1.15, 10)), 0.01); len(got) > 0 && got[0].At >= 19 && got[0].At <= 21 {
			found++
		}
	}
	if alarms > 9 || found < trials*8/10 {
		t.Errorf("%d alarms, %d found of %d", alarms, found, trials)
	}
	two := c.Find(slices.Concat(draw(1, 15), draw(2, 15), draw(1, 15)), 0.01)
	if len(two) != 2 || two[0].At != 15 || two[1].At != 30 {
		t.Errorf("two changes: %+v", two)
	}
	if got := c.Find(slices.Concat(draw(1, 20), []float64{50, 60}, draw(1, 20)), 0.01); len(got) != 0 {
		t.Errorf("two outliers are a change: %+v", got)
	}
	for _, none := range [][]float64{nil, {1, 2}, slices.Repeat([]float64{7}, 40)} {
		if got := c.Find(none, 0.01); len(got) != 0 {
			t.Errorf("%v: %+v", none, got)
		}
	}
}

func TestChangesVisible(t *testing.T) {
	c := stats.NewChanges(1)
	n := c.Visible(20, 0.01)
	if n < stats.MinSegment || n > 6 {
		t.Fatalf("visible after %d", n)
	}
	values := make([]float64, 20+n)
	for i := range values {
		values[i] = float64(i*7%20) / 20
		if i >= 20 {
			values[i] += 10
		}
	}
	if got := c.Find(values, 0.01); len(got) != 1 || got[0].At != 20 {
		t.Errorf("after %d values: %+v", n, got)
	}
	if c.Sees(5, 0.01) || !c.Sees(20, 0.01) {
		t.Error("five values show a change, or twenty cannot")
	}
	if n := c.Visible(3, 0.01); n != 0 {
		t.Errorf("behind three values a change is visible after %d", n)
	}
}

// Values with many ties, such as seconds of a coarse clock, alarm no more often
// than others.
func TestChangesWithTies(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	c := stats.NewChanges(1)
	const trials, level = 1000, 0.01
	alarms := 0
	for range trials {
		values := make([]float64, 20)
		for i := range values {
			values[i] = float64(r.IntN(2))
		}
		if len(c.Find(values, level)) > 0 {
			alarms++
		}
	}
	if alarms > 2*trials*level {
		t.Errorf("%d alarms in %d sequences at a level of %g", alarms, trials, level)
	}
	step := slices.Concat(slices.Repeat([]float64{0}, 10), slices.Repeat([]float64{1}, 8))
	if got := c.Find(step, 0.01); len(got) != 1 || got[0].At != 10 {
		t.Errorf("a step of ties: %+v", got)
	}
}

// A level that many sequences share is strict, and a clear change is found at it.
func TestChangesAtStrictLevels(t *testing.T) {
	var values []float64
	for i := range 30 {
		values = append(values, float64(i*7%15)+float64(i/15*100))
	}
	c := stats.NewChanges(1)
	for _, level := range []float64{0.05 / 251, 0.05 / 1000} {
		if got := c.Find(values, level); len(got) != 1 || got[0].At != 15 || got[0].P > level {
			t.Errorf("level %g: %+v", level, got)
		}
		if !c.Sees(len(values), level) {
			t.Errorf("level %g: nothing can be seen", level)
		}
	}
	if got := c.Find(values, stats.MinLevel/2); len(got) != 0 || c.Sees(len(values), stats.MinLevel/2) {
		t.Errorf("beyond the strictest level: %+v", got)
	}
}
