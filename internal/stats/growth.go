package stats

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Shape is how a quantity grows with a size.
type Shape string

// The shapes that are told apart. Each is a formula with at most two constants,
// neither of them negative.
const (
	Constant     Shape = "constant"  // a
	Linear       Shape = "linear"    // a + b x
	Linearithmic Shape = "x log x"   // a + b x ln x
	Quadratic    Shape = "quadratic" // a + b x²
)

// Shapes returns all of them, the slowest first.
func Shapes() []Shape { return []Shape{Constant, Linear, Linearithmic, Quadratic} }

// shapeTerm is what b stands beside.
func (s Shape) shapeTerm(x float64) float64 {
	switch s {
	case Linear:
		return x
	case Linearithmic:
		return x * math.Log(x)
	case Quadratic:
		return x * x
	}
	return 0
}

// Model is a shape with its constants.
type Model struct {
	Shape Shape   `json:"shape"`
	A     float64 `json:"a"`
	B     float64 `json:"b"`
	// Weight is how much of the evidence is for this model, of those that were
	// tried: its Akaike weight.
	Weight float64 `json:"weight"`
	// Spread is how far the points lie from the curve, as a share: the standard
	// deviation of logarithms. Where it is large no curve fits.
	Spread float64 `json:"spread"`

	squares, aicc float64
}

// At returns the model's value at a size.
func (m Model) At(x float64) float64 { return m.A + m.B*m.Shape.shapeTerm(x) }

// Growth is what runs of several sizes say of a quantity.
type Growth struct {
	Best   Model   // the one with the most evidence
	Models []Model // all, the best first
	// Doubling is by what factor the quantity grows when the size doubles: the
	// power law that fits best, with its interval.
	Doubling Estimate

	points []Point
	seed   uint64
}

// What a fit needs: without three sizes no curve can be told from a line, and
// without two points more than constants nothing is left to judge the fit by.
const (
	MinSizes  = 3
	MinPoints = 5
)

// Resamples is how many times Grow and Project draw anew.
const Resamples = 1000

// noise is the least relative error that is taken to be there: without it
// points that lie on a curve by chance would be infinitely much evidence.
const noise = 1e-3

// Grow fits how Y grows with X. Errors are taken to be in proportion to the
// quantity, up and down alike: those of its logarithm are. Models
// are weighed by Akaike's criterion with the correction for small samples
// (K. P. Burnham and D. R. Anderson, Model Selection and Multimodel Inference,
// 2nd edition, 2002, chapter 2). Intervals are by the bootstrap of residuals
// (B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap, 1993, section
// 9.4), percentiles of Resamples. It says false where there are fewer than
// MinPoints or MinSizes, or a value is not positive.
func Grow(points []Point, seed uint64) (Growth, bool) {
	sizes := map[float64]bool{}
	for _, p := range points {
		sizes[p.X] = true
		if p.X <= 0 || p.Y <= 0 {
			return Growth{}, false
		}
	}
	if len(points) < MinPoints || len(sizes) < MinSizes {
		return Growth{}, false
	}
	g := Growth{points: slices.Clone(points), seed: seed, Models: fitAll(points)}
	g.Best = g.Models[0]
	k := fitExponent(points)
	samples := make([]float64, 0, Resamples)
	g.drawResample(func(again []Point) { samples = append(samples, math.Exp2(fitExponent(again))) })
	g.Doubling = percentileEstimate(math.Exp2(k), samples, len(points))
	return g, true
}

// Project returns the quantity at a size, with the interval that the bootstrap
// gives when each resample chooses its model anew; of a constant, when each resample
// is taken for a line, since the noise may hide one. Beyond the sizes that were
// measured it is a projection and no measurement.
func (g Growth) Project(x float64) Estimate {
	samples := make([]float64, 0, Resamples)
	g.drawResample(func(again []Point) {
		if g.Best.Shape == Constant {
			samples = append(samples, fitShape(Linear, again).At(x))
		} else {
			samples = append(samples, fitAll(again)[0].At(x))
		}
	})
	return percentileEstimate(g.Best.At(x), samples, len(g.points))
}

// Evidence returns the weight of all models of some shapes together.
func (g Growth) Evidence(shapes ...Shape) (sum float64) {
	for _, m := range g.Models {
		if slices.Contains(shapes, m.Shape) {
			sum += m.Weight
		}
	}
	return sum
}

// fitAll fits every shape, the best first. No evidence is for a constant where the
// growth stands out from the noise.
func fitAll(points []Point) []Model {
	var out []Model
	for _, s := range Shapes() {
		out = append(out, fitShape(s, points))
	}
	if standsOut(len(points), out[0].squares, out[1].squares) {
		out[0].aicc = math.Inf(1)
	}
	slices.SortStableFunc(out, func(a, b Model) int { return cmp.Compare(a.aicc, b.aicc) })
	sum := 0.0
	for i := range out {
		out[i].Weight = math.Exp((out[0].aicc - out[i].aicc) / 2)
		sum += out[i].Weight
	}
	for i := range out {
		out[i].Weight /= sum
	}
	return out
}

// standsOut tells whether a line leaves so much less of the spread of n points than a
// constant does that it is no chance, with 95 % confidence: the F test of the one
// constant more. It asks of the growth against the noise, however large the part is
// that does not grow. Akaike's criterion, which looks for the curve that predicts
// best, prefers a constant to a plain line of five points.
func standsOut(n int, constant, line float64) bool {
	free := float64(n - 2)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: free}.Quantile(1 - (1-Confidence)/2)
	line = max(line, float64(n)*noise*noise)
	return (constant-line)/(line/free) > t*t
}

// fitShape finds a shape's constants by least squares of logarithms. For a given
// ratio r of b to a the best a follows at once; r is looked for on a grid of
// its logarithm, from where b hardly counts to where a hardly does, and then
// between the neighbours of the best.
func fitShape(s Shape, points []Point) Model {
	best := ratioFit(s, points, 0)
	if s != Constant {
		lowest, highest := math.Inf(1), 0.0
		for _, p := range points {
			lowest, highest = min(lowest, s.shapeTerm(p.X)), max(highest, s.shapeTerm(p.X))
		}
		low, high := math.Log(1/(ratioReach*highest)), math.Log(ratioReach/max(lowest, highest/ratioReach))
		step, at := (high-low)/ratioGrid, low
		for i := range ratioGrid + 1 {
			if m := ratioFit(s, points, math.Exp(low+float64(i)*step)); m.squares < best.squares {
				best, at = m, low+float64(i)*step
			}
		}
		for range ratioHalvings {
			step /= 2
			for _, r := range []float64{at - step, at + step} {
				if m := ratioFit(s, points, math.Exp(r)); m.squares < best.squares {
					best, at = m, r
				}
			}
		}
	}
	constants := 3.0 // a, b and the spread
	if s == Constant {
		constants = 2
	}
	n := float64(len(points))
	best.Spread = math.Sqrt(best.squares / max(1, n-constants+1))
	best.aicc = n*math.Log(max(best.squares/n, noise*noise)) + 2*constants + 2*constants*(constants+1)/max(1, n-constants-1)
	return best
}

// How the ratio of b to a is looked for, see fit.
const (
	ratioReach    = 1e4
	ratioGrid     = 24
	ratioHalvings = 12
)

// ratioFit is the best fit with b = r a.
func ratioFit(s Shape, points []Point, r float64) Model {
	logs := make([]float64, len(points)) // of y / (1 + r term)
	for i, p := range points {
		logs[i] = math.Log(p.Y) - math.Log1p(r*s.shapeTerm(p.X))
	}
	mean := stat.Mean(logs, nil)
	m := Model{Shape: s, A: math.Exp(mean), B: r * math.Exp(mean)}
	for _, v := range logs {
		m.squares += (v - mean) * (v - mean)
	}
	return m
}

// fitExponent is that of the power law that fits best.
func fitExponent(points []Point) float64 {
	x, y := make([]float64, len(points)), make([]float64, len(points))
	for i, p := range points {
		x[i], y[i] = math.Log(p.X), math.Log(p.Y)
	}
	_, slope := stat.LinearRegression(x, y, nil, false)
	return slope
}

// drawResample draws the points anew: what the best model gives at each size, times
// one of the relative errors that it left.
func (g Growth) drawResample(take func([]Point)) {
	n := len(g.points)
	errors, mean := make([]float64, n), 0.0
	for i, p := range g.points {
		errors[i] = math.Log(p.Y / g.Best.At(p.X))
		mean += errors[i] / float64(n)
	}
	// The fit took up some of the spread; this gives it back.
	wider := math.Sqrt(float64(n) / max(1, float64(n-2)))
	r := rand.New(rand.NewPCG(g.seed, 1))
	again := make([]Point, n)
	for range Resamples {
		for i, p := range g.points {
			again[i] = Point{p.X, g.Best.At(p.X) * math.Exp(wider*(errors[r.IntN(n)]-mean))}
		}
		take(again)
	}
}

// percentileEstimate makes an estimate of a value and its resamples.
func percentileEstimate(value float64, samples []float64, n int) Estimate {
	slices.Sort(samples)
	at := func(q float64) float64 { return samples[Rank(len(samples), q)-1] }
	tail := (1 - Confidence) / 2
	return Estimate{Value: value, Low: value, High: value, Samples: n, Interval: [2]float64{min(value, at(tail)), max(value, at(1-tail))}}
}
