package stats_test

import (
	"math"
	"testing"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// The second case by hand: s = 0.8944, the sum of squares of X is 10, and t of 3 degrees of freedom is 3.1824.
func TestFitLine(t *testing.T) {
	of := func(y ...float64) (out []stats.Point) {
		for i, v := range y {
			out = append(out, stats.Point{X: float64(i + 1), Y: v})
		}
		return out
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-4 }
	for _, c := range []struct {
		name   string
		points []stats.Point
		ok     bool
		a, b   [3]float64 // value and interval
	}{
		{"on a line", of(3, 5, 7), true, [3]float64{1, 1, 1}, [3]float64{2, 2, 2}},
		{"scattered", of(2, 4, 5, 4, 5), true, [3]float64{2.2, -0.7853, 5.1853}, [3]float64{0.6, -0.3001, 1.5001}},
		{"two points", of(1, 2), false, [3]float64{}, [3]float64{}},
		{"one size", []stats.Point{{X: 1, Y: 1}, {X: 1, Y: 2}, {X: 1, Y: 3}}, false, [3]float64{}, [3]float64{}},
	} {
		got, ok := stats.FitLine(c.points)
		if ok != c.ok {
			t.Errorf("%s: %t", c.name, ok)
			continue
		}
		for i, e := range []stats.Estimate{got.Intercept, got.Slope} {
			want := [][3]float64{c.a, c.b}[i]
			if !near(e.Value, want[0]) || !near(e.Interval[0], want[1]) || !near(e.Interval[1], want[2]) {
				t.Errorf("%s: %v, want %v", c.name, e, want)
			}
		}
	}
}
