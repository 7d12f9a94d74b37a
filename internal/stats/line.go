package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// Line is a straight line through points: what there is at 0, and what each unit of X adds.
type Line struct{ Intercept, Slope Estimate }

// minLine is how many points a line needs, so that one is left to tell how far they scatter.
const minLine = 3

// FitLine fits a line by least squares, with the intervals of Student for both constants (N.
// R. Draper and H. Smith, Applied Regression Analysis, 3rd edition, 1998, section 1.4). It
// takes the scatter to be the same at all X. It says false for fewer than three points, or
// of one X.
func FitLine(points []Point) (Line, bool) {
	n := float64(len(points))
	var x, y, xx, xy float64
	for _, p := range points {
		x, y = x+p.X/n, y+p.Y/n
	}
	for _, p := range points {
		xx, xy = xx+(p.X-x)*(p.X-x), xy+(p.X-x)*(p.Y-y)
	}
	if len(points) < minLine || xx == 0 {
		return Line{}, false
	}
	b := xy / xx
	a := y - b*x
	rest := 0.0
	for _, p := range points {
		rest += (p.Y - a - b*p.X) * (p.Y - a - b*p.X)
	}
	spread := math.Sqrt(rest / (n - 2))
	t := distuv.StudentsT{Sigma: 1, Nu: n - 2}.Quantile(1 - (1-Confidence)/2)
	estimate := func(v, half float64) Estimate {
		return Estimate{Value: v, Low: v, High: v, Interval: [2]float64{v - half, v + half}, Samples: len(points)}
	}
	return Line{estimate(a, t*spread*math.Sqrt(1/n+x*x/xx)), estimate(b, t*spread/math.Sqrt(xx))}, true
}
