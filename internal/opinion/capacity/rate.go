package capacity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Kept is the share of what was asked for that has to be achieved: with less,
// asked and achieved part.
const Kept = 0.95

// RatePoint is what was asked for and achieved at a point of the search.
type RatePoint struct {
	Point    []float64 `json:"point"`
	Asked    float64   `json:"asked,omitempty"` // 0: as much as the plane would take
	Achieved float64   `json:"achieved"`        // mean of its runs
	Runs     int       `json:"runs"`
	Short    bool      `json:"short,omitempty"` // less than Kept of what was asked for
}

// rateOf is a run's rate of a name.
func (r Run) rateOf(name string) (run.Rate, bool) {
	i := slices.IndexFunc(r.Rates, func(x run.Rate) bool { return x.Name == name })
	if i < 0 {
		return run.Rate{}, false
	}
	return r.Rates[i], true
}

// ofObjects says that a rate is that of what calls led to, not of calls.
func ofObjects(r run.Rate) bool { return r.Unit != "calls/s" }

// demandOf is how hard a run asked: in units per second, of a closed loop in calls
// under way.
func demandOf(r run.Rate) float64 {
	if r.Asked > 0 {
		return r.Asked
	}
	return float64(r.Parallel)
}

// candidate is a rate that a search may speak of, with how much was asked of it.
type candidate struct {
	run.Rate
	low, high float64
}

// askedVaries says that clearly more is asked in some runs than in others.
func (c candidate) askedVaries() bool { return c.high > c.low/Kept }

// RateName chooses the rate that a search speaks of: the plan's own, else one of
// which more is asked in some runs than in others, of objects rather than of calls,
// the largest one. Empty where runs have none.
func (p Plan) RateName(runs []Run) string {
	if p.Rate != "" {
		return p.Rate
	}
	all := map[string]*candidate{}
	for _, r := range runs {
		for _, x := range r.Rates {
			if p.Goal == ThroughputGoal && len(x.LeftOut) > 0 {
				continue // the objects are what is asked about, not their calls
			}
			c := all[x.Name]
			if c == nil {
				c = &candidate{x, demandOf(x), demandOf(x)}
				all[x.Name] = c
			}
			c.low, c.high = min(c.low, demandOf(x)), max(c.high, demandOf(x))
		}
	}
	if len(all) == 0 {
		return ""
	}
	order := func(yes bool) int { return map[bool]int{true: 0, false: 1}[yes] }
	return slices.MinFunc(slices.Sorted(maps.Keys(all)), func(a, b string) int {
		x, y := all[a], all[b]
		return cmp.Or(order(x.askedVaries())-order(y.askedVaries()), order(ofObjects(x.Rate))-order(ofObjects(y.Rate)), cmp.Compare(y.high, x.high))
	})
}

// isShort tells whether clearly less was achieved than was asked for; never of a
// closed loop.
func isShort(asked, achieved float64) bool { return asked > 0 && achieved < Kept*asked }

// ratesAt sums up what the runs of a point came to: those that were judged, or
// where none was all.
func (s *search) ratesAt(point []float64, name string) (RatePoint, []float64) {
	var judged, all []float64
	out := RatePoint{Point: point}
	for _, r := range s.runs {
		x, ok := r.rateOf(name)
		if !ok || !slices.Equal(r.Point, point) {
			continue
		}
		out.Asked = x.Asked
		all = append(all, x.Achieved)
		if r.Verdict != slo.Unknown {
			judged = append(judged, x.Achieved)
		}
	}
	values := judged
	if len(values) == 0 {
		values = all
	}
	out.Achieved, out.Runs = stats.Mean(values).Value, len(values)
	out.Short = isShort(out.Asked, out.Achieved)
	return out, judged
}

// flownPoints returns those that were flown, ascending.
func (s *search) flownPoints() [][]float64 {
	var out [][]float64
	for _, r := range s.runs {
		out = append(out, r.Point)
	}
	slices.SortFunc(out, slices.Compare)
	return slices.CompactFunc(out, slices.Equal)
}

// ratePoints are all points of which the rate is known.
func (s *search) ratePoints() (out []RatePoint) {
	for _, p := range s.flownPoints() {
		if at, _ := s.ratesAt(p, s.rate); at.Runs > 0 {
			out = append(out, at)
		}
	}
	return out
}

// shortRateWarnings warns of every rate of which less was achieved than asked for at a point
// that passes: its objectives hold, and what was asked for was not put to the test.
func (s *search) shortRateWarnings(lines []axisLine) []string {
	var out []string
	for _, l := range lines {
		e := l.findEdge()
		if e.lo < 0 || l.tallies[e.lo].total() == 0 {
			continue
		}
		point := l.point(l.values[e.lo])
		for _, name := range s.rateNames(point) {
			if at, _ := s.ratesAt(point, name); at.Short {
				out = append(out, fmt.Sprintf("%s passes, but %s came to %s of the %s asked for (%s; below %s is short): %s.",
					s.pointText(point), name, unit.Number(at.Achieved), unit.Text(at.Asked, s.unitOf(name)), unit.Text(at.Achieved/at.Asked, "ratio"),
					unit.Text(Kept, "ratio"), s.boundOn(point, name)))
			}
		}
	}
	if len(out) > 0 {
		out = append(out, "What the plane sustains, whatever is asked for, is found by --goal throughput.")
	}
	return out
}

// rateNames are the rates of the runs of a point: where those of a step's objects
// are known, its calls are left to them.
func (s *search) rateNames(point []float64) []string {
	var out []string
	for _, r := range s.runs {
		if !slices.Equal(r.Point, point) {
			continue
		}
		for _, x := range r.Rates {
			covered := !ofObjects(x) && slices.ContainsFunc(r.Rates, func(o run.Rate) bool { return ofObjects(o) && o.Step == x.Step })
			if !covered && !slices.Contains(out, x.Name) {
				out = append(out, x.Name)
			}
		}
	}
	return out
}

// boundOn says what the objectives ask of a rate.
func (s *search) boundOn(point []float64, name string) string {
	for _, r := range s.runs {
		if !slices.Equal(r.Point, point) {
			continue
		}
		for _, o := range r.Objectives {
			if o.Rate == name && o.AtLeast {
				return fmt.Sprintf("the objective %s wants no more than %s", o.Name, unit.Text(o.Threshold, s.unitOf(name)))
			}
		}
	}
	return "no objective bounds this rate"
}

func (s *search) unitOf(name string) string {
	for _, r := range s.runs {
		if x, ok := r.rateOf(name); ok {
			return x.Unit
		}
	}
	return ""
}
