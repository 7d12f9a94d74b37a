package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// search is a plan with the runs so far.
type search struct {
	plan   Plan
	levels [][]float64 // by axis
	runs   []Run
	rate   string // that it speaks of; empty: none was measured
}

func newSearch(p Plan, runs []Run) *search {
	s := &search{plan: p, runs: runs, rate: p.RateName(runs)}
	for _, a := range p.Axes {
		s.levels = append(s.levels, a.Levels(p.Resolution))
	}
	return s
}

// tallyPoint counts the runs of a point.
func (s *search) tallyPoint(point []float64) (t tally) {
	for _, r := range s.runs {
		if slices.Equal(r.Point, point) {
			t.countVerdict(r.Verdict)
		}
	}
	return t
}

// lineOf is the row of points that make returns for the values of an axis.
func (s *search) lineOf(values []float64, point func(v float64) []float64) line {
	l := line{values: values, repeats: s.plan.Repeats, floor: -1, limit: len(values), reach: -1}
	for _, v := range values {
		l.tallies = append(l.tallies, s.tallyPoint(point(v)))
	}
	if s.plan.Goal == ThroughputGoal {
		s.pursueThroughput(&l, point)
	}
	return l
}

// nextPoint returns the point to fly, nil at the end of the search, and why.
func (s *search) nextPoint() ([]float64, string) {
	for _, c := range s.axisLines() {
		if i, why := c.nextValue(); i >= 0 {
			return c.point(c.values[i]), fmt.Sprintf("%s %s", s.pointText(c.point(c.values[i])), why)
		}
	}
	return nil, "the search is at its end"
}

// pointText names a point: "nodes=100 pods=3000".
func (s *search) pointText(point []float64) string {
	var out []string
	for i, v := range point {
		out = append(out, s.plan.Axes[i].Name+"="+Text(v))
	}
	return strings.Join(out, " ")
}

// axisLine is a line at its place in the search.
type axisLine struct {
	line
	point func(v float64) []float64
	fixed float64 // value of the axis that the line does not run along
	last  bool    // the row along the first axis, at the least of the second
}

// axisLines returns the lines of the search as far as the runs have led to them:
// with one axis it is one. With two it is a column for some values of the first
// axis, each limited by the one before, since what does not pass with less does not
// with more; up to the column in which nothing passes. Where that is so, a last row at the
// least of the second axis finds how far the first one goes. Where the throughput
// is looked for, each column is by itself.
func (s *search) axisLines() []axisLine {
	if len(s.levels) == 1 {
		point := func(v float64) []float64 { return []float64{v} }
		return []axisLine{{line: s.lineOf(s.levels[0], point), point: point}}
	}
	var out []axisLine
	limit, hint := len(s.levels[1]), 0
	columns := s.columnIndices()
	for n, i := range columns {
		x := s.levels[0][i]
		point := func(v float64) []float64 { return []float64{x, v} }
		c := axisLine{line: s.lineOf(s.levels[1], point), point: point, fixed: x}
		c.limit, c.hint = limit, hint
		out = append(out, c)
		if at, _ := c.nextValue(); at >= 0 {
			return out
		}
		e := c.findEdge()
		if s.plan.Goal == ThroughputGoal { // a fleet that grows need not achieve less
			hint = max(e.lo, 0)
			continue
		}
		if e.lo < 0 {
			if n > 0 {
				out = append(out, s.rowBetween(columns[n-1], i))
			}
			return out
		}
		limit, hint = min(limit, e.hi), e.lo
	}
	return out
}

// rowBetween runs along the first axis between a column in which something passes and
// one in which nothing does.
func (s *search) rowBetween(passing, failing int) axisLine {
	least := s.levels[1][0]
	point := func(v float64) []float64 { return []float64{v, least} }
	r := axisLine{line: s.lineOf(s.levels[0], point), point: point, fixed: least, last: true}
	r.floor, r.limit, r.hint = passing, failing, passing
	return r
}

// columnIndices returns the indices of the values of the first axis that are looked at,
// its ends among them.
func (s *search) columnIndices() []int {
	last := len(s.levels[0]) - 1
	n := min(s.plan.Columns, last+1)
	var out []int
	for i := range n {
		out = append(out, (i*last+(n-1)/2)/(n-1))
	}
	return slices.Compact(out)
}
