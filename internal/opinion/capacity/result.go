package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Result is what a search came to.
type Result struct {
	// Verdict is pass where the edge is found, or everything passes; fail where
	// not even the least load passes; unknown where the search is not at its
	// end, or runs at the edge could not tell.
	Verdict slo.Verdict `json:"verdict"`
	// Edges is one with one axis; with two one for each value of the first that
	// was looked at, and the last one where along the first axis it ends.
	// For the throughput passing is that all that was asked for is achieved.
	Edges []Edge `json:"edges"`
	// Throughputs are one with one axis, with two one for each value of the first.
	Throughputs []Throughput `json:"throughputs,omitempty"`
	// Rate is the name of the rate that Points and Throughputs are of.
	Rate     string       `json:"rate,omitempty"`
	RateUnit string       `json:"rate_unit,omitempty"`
	Points   []RatePoint  `json:"points,omitempty"` // asked and achieved, ascending
	Limit    *Limit       `json:"limit,omitempty"`  // what gives way first
	Knee     *stats.Point `json:"knee,omitempty"`   // of Limit's curve; with one axis
	Sentence string       `json:"sentence"`
	Warnings []string     `json:"warnings"` // sentences
}

// Edge is where passing ends along one axis.
type Edge struct {
	Axis  string             `json:"axis"`
	Fixed map[string]float64 `json:"fixed,omitempty"` // the other axis
	// Passing is the largest value that passes; nil: none does. Failing is the
	// next one; nil: all pass. The edge lies between them.
	Passing *Level `json:"passing"`
	Failing *Level `json:"failing"`
	Done    bool   `json:"done"` // it needs no further run
}

// Level is a value with the runs at it.
type Level struct {
	Value   float64 `json:"value"`
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Unknown int     `json:"unknown"`
	// Implied says that it was not flown: a smaller load does not pass, or a
	// larger one does.
	Implied bool `json:"implied,omitempty"`
	// Share is the share of runs that pass here, with its 95 % interval
	// (stats.Share); nil where no run was decided.
	Share *[2]float64 `json:"pass_share_interval,omitempty"`
}

// Limit is the objective that decides where the edge lies: the one that fails
// most above it, or where nothing fails the one nearest to its bound.
type Limit struct {
	Objective string        `json:"objective"`
	Unit      string        `json:"unit"`
	Threshold float64       `json:"threshold"`
	AtLeast   bool          `json:"at_least,omitempty"`
	Failed    int           `json:"failed"`          // runs above the edge in which it failed
	Of        int           `json:"of"`              // runs above the edge that failed
	Curve     []stats.Point `json:"curve,omitempty"` // with one axis: medians of its value
}

// Conclude says what the runs of a plan came to.
func Conclude(p Plan, runs []Run) Result {
	s := newSearch(p, runs)
	out := Result{Edges: []Edge{}, Warnings: []string{}}
	lines := s.axisLines()
	for _, l := range lines {
		out.Edges = append(out.Edges, s.newEdge(l))
	}
	out.Rate, out.RateUnit, out.Points = s.rate, s.unitOf(s.rate), s.ratePoints()
	if p.Goal == ThroughputGoal {
		return s.concludeThroughput(lines, out)
	}
	out.Verdict = s.overallVerdict(out.Edges)
	out.Limit = s.findLimit(lines)
	if out.Limit != nil && len(p.Axes) == 1 {
		if k, ok := stats.Knee(out.Limit.Curve); ok {
			out.Knee = &k
		}
	}
	out.Warnings = append(out.Warnings, s.shortRateWarnings(lines)...)
	out.Warnings = append(out.Warnings, s.listWarnings(lines)...)
	out.Sentence = s.describeResult(out)
	return out
}

// newEdge makes an edge of a line.
func (s *search) newEdge(l axisLine) Edge {
	axis := len(s.plan.Axes) - 1
	if l.last {
		axis = 0
	}
	out := Edge{Axis: s.plan.Axes[axis].Name}
	if len(s.plan.Axes) == 2 {
		out.Fixed = map[string]float64{s.plan.Axes[1-axis].Name: l.fixed}
	}
	i, _ := l.nextValue()
	out.Done = i < 0
	e := l.findEdge()
	out.Passing, out.Failing = l.levelAt(e.lo), l.levelAt(e.hi)
	return out
}

// levelAt describes the i-th value; nil beyond the ends.
func (l axisLine) levelAt(i int) *Level {
	if i < 0 || i >= len(l.values) {
		return nil
	}
	t := l.tallies[i]
	out := &Level{Value: l.values[i], Passed: t.passed, Failed: t.failed, Unknown: t.unknown, Implied: t.total() == 0}
	if t.decided() > 0 {
		share := stats.Share(t.passed, t.decided()).Interval
		out.Share = &share
	}
	return out
}

// overallVerdict is that of the whole search.
func (s *search) overallVerdict(edges []Edge) slo.Verdict {
	for _, e := range edges {
		if !e.Done || e.Failing != nil && !e.Failing.doesNotPass() {
			return slo.Unknown
		}
	}
	if edges[0].Passing == nil {
		return slo.Fail
	}
	return slo.Pass
}

// failedAbove are the runs that failed at the far sides of all edges.
func (s *search) failedAbove(lines []axisLine) (out []Run) {
	for _, l := range lines {
		if e := l.findEdge(); e.hi < len(l.values) {
			for _, r := range s.runs {
				if r.Verdict == slo.Fail && slices.Equal(r.Point, l.point(l.values[e.hi])) {
					out = append(out, r)
				}
			}
		}
	}
	return out
}

// findLimit finds what gives way first.
func (s *search) findLimit(lines []axisLine) *Limit {
	above := s.failedAbove(lines)
	type score struct {
		failed int
		usage  float64
		o      Objective
	}
	scores := map[string]*score{}
	of := above
	if len(of) == 0 {
		of = s.runs
	}
	for _, r := range of {
		for _, o := range r.Objectives {
			one := scores[o.Name]
			if one == nil {
				one = &score{o: o}
				scores[o.Name] = one
			}
			if o.Verdict == slo.Fail {
				one.failed++
			}
			one.usage = max(one.usage, o.shareOfBound())
		}
	}
	if len(scores) == 0 {
		return nil
	}
	name := slices.MinFunc(slices.Sorted(maps.Keys(scores)), func(a, b string) int {
		x, y := scores[a], scores[b]
		return cmp.Or(-cmp.Compare(x.failed, y.failed), -cmp.Compare(x.usage, y.usage))
	})
	best := scores[name]
	if len(above) == 0 {
		best.failed = 0 // in runs that decide nothing yet
	}
	out := &Limit{Objective: name, Unit: best.o.Unit, Threshold: best.o.Threshold, AtLeast: best.o.AtLeast, Failed: best.failed, Of: len(above)}
	if len(s.plan.Axes) == 1 {
		out.Curve = s.objectiveCurve(name)
	}
	return out
}

// objectiveCurve is an objective's median at each value that was flown.
func (s *search) objectiveCurve(name string) []stats.Point {
	values := map[float64][]float64{}
	for _, r := range s.runs {
		for _, o := range r.Objectives {
			if o.Name == name && o.Value != nil {
				values[r.Point[0]] = append(values[r.Point[0]], *o.Value)
			}
		}
	}
	var out []stats.Point
	for _, x := range slices.Sorted(maps.Keys(values)) {
		out = append(out, stats.Point{X: x, Y: stats.Median(values[x]).Value})
	}
	return out
}

// listWarnings returns what casts doubt on the result.
func (s *search) listWarnings(lines []axisLine) []string {
	var out []string
	for _, l := range lines {
		e := l.findEdge()
		for i := e.hi + 1; i < len(l.values); i++ {
			if l.tallies[i].majorityVerdict(l.repeats) == passes {
				out = append(out, fmt.Sprintf("%s passes although %s, which is less, does not: the edge is not sharp.",
					s.pointText(l.point(l.values[i])), s.pointText(l.point(l.values[e.hi]))))
			}
		}
		if e.hi < len(l.values) && l.tallies[e.hi].majorityVerdict(l.repeats) == inconclusive {
			out = append(out, fmt.Sprintf("No run at %s could be judged%s.", s.pointText(l.point(l.values[e.hi])), s.whyUnknown(l.point(l.values[e.hi]))))
		}
	}
	return append(out, s.unjudgedWarnings()...)
}

// unjudgedWarnings says how many runs could not be judged.
func (s *search) unjudgedWarnings() []string {
	unknown := 0
	for _, r := range s.runs {
		if r.Verdict != slo.Pass && r.Verdict != slo.Fail {
			unknown++
		}
	}
	if unknown == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d of %d runs could not be judged; they count neither as passed nor as failed.", unknown, len(s.runs))}
}

// whyUnknown is the reason of the last run of a point that could not be judged.
func (s *search) whyUnknown(point []float64) (text string) {
	for _, r := range s.runs {
		if slices.Equal(r.Point, point) && r.Verdict == slo.Unknown && r.Reason != "" {
			text = ": " + r.Reason
		}
	}
	return trimEnd(text)
}
