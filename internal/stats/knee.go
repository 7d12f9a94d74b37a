package stats

import (
	"cmp"
	"slices"
)

// Point is a place on a curve.
type Point struct {
	X float64 `json:"x"`
	Y float64 `json:"y"`
}

// MinKnee is how many points a curve needs before a knee is looked for.
const MinKnee = 5

// kneeClear is how far a curve must lie below the straight line between its
// ends, as a share of its height, before its bend is called a knee: a line with
// noise bends, too.
const kneeClear = 0.2

// Knee returns the point after which a rising curve turns up: where it lies
// farthest below the straight line between its ends, both scaled to 1. That is
// the method Kneedle of V. Satopää, J. Albrecht, D. Irwin and B. Raghavan, Finding
// a "Kneedle" in a Haystack, ICDCS Workshops 2011, for a curve that is convex,
// taken off line and without its smoothing: the points are few, and medians
// already. It says false for fewer than MinKnee different X, a curve that
// does not rise, and one without a clear bend. Points may come in any order; of
// several with one X the first counts.
func Knee(points []Point) (Point, bool) {
	p := slices.Clone(points)
	slices.SortStableFunc(p, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
	p = slices.CompactFunc(p, func(a, b Point) bool { return a.X == b.X })
	if len(p) < MinKnee {
		return Point{}, false
	}
	first, last := p[0], p[len(p)-1]
	if last.Y <= first.Y {
		return Point{}, false
	}
	best, highest := Point{}, 0.0
	for _, at := range p {
		below := (at.X-first.X)/(last.X-first.X) - (at.Y-first.Y)/(last.Y-first.Y)
		if below > highest {
			best, highest = at, below
		}
	}
	return best, highest >= kneeClear
}
