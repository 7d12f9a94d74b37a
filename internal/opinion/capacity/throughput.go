package capacity

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Goal is what a search looks for.
type Goal string

// The goals.
const (
	Objectives     Goal = ""           // the largest load whose objectives hold
	ThroughputGoal Goal = "throughput" // the largest rate that is sustained, whatever is asked for
)

// Bounds of a plateau.
const (
	Flat    = 0.1  // achieved within this share of the most is as much as that
	further = 1.2  // by this factor more has to be asked before no more counts as a plateau
	slope   = 0.25 // on a plateau achieved grows by less than this power of the factor by which more is asked
)

// Shape is what a curve of what was achieved over what was asked for looks like.
type Shape string

// The shapes.
const (
	Unmeasured Shape = "unmeasured" // no run tells
	Following  Shape = "following"  // all that was asked for was achieved, to the end
	Open       Shape = "open"       // less than what was asked for was achieved, and no plateau was seen
	Plateau    Shape = "plateau"    // more asked brought no more
)

// Load is a load with what its runs achieved.
type Load struct {
	Value    float64   // of the parameter
	Asked    float64   // in units per second; 0: as much as the plane would take
	Demand   float64   // Asked, or of a closed loop its calls under way
	Achieved []float64 // by run
}

func (l Load) meanAchieved() float64 { return stats.Mean(l.Achieved).Value }

func (l Load) isShort() bool { return isShort(l.Asked, l.meanAchieved()) }

// Throughput is the largest rate that a plane sustains.
type Throughput struct {
	Fixed    map[string]float64 `json:"fixed,omitempty"` // the other axis
	Shape    Shape              `json:"shape"`
	Value    float64            `json:"value"`              // mean of the runs on the plateau; of other shapes what was achieved at most: a lower bound
	Interval *[2]float64        `json:"interval,omitempty"` // 95 %, see stats.Mean; nil for one run
	Runs     int                `json:"runs"`
	From     float64            `json:"from"`                 // the least load that brings it
	To       float64            `json:"to"`                   // the largest one that does
	Follows  *float64           `json:"follows,omitempty"`    // the largest load of which all that is asked for is achieved
	Falls    *RatePoint         `json:"falls,omitempty"`      // the largest load flown, where it brings clearly less
	Within   *RatePoint         `json:"objectives,omitempty"` // the load with the most achieved whose objectives hold
	Bounds   []Bounded          `json:"bounds,omitempty"`     // what limited the plane in these runs, most frequent first
	Done     bool               `json:"done"`
}

// Bounded is what limited the plane in some runs, by their diagnosis.
type Bounded struct {
	Cause string `json:"cause"`
	Runs  int    `json:"runs"`
}

// Sustained estimates the throughput from loads by ascending value.
//
// In the terms of RFC 2285 (Mandeville, 1998) the asked rate is the intended load,
// the achieved one the forwarding rate, and what is looked for the maximum
// forwarding rate. The model is the asymptotic bound of operational analysis
// (Denning and Buzen, The operational analysis of queueing network models, ACM
// Computing Surveys 10 (1978)): achieved is the lesser of what is asked for and of
// what the bottleneck does. A load is on the plateau where clearly less than what
// was asked for was achieved (of a closed loop: at all), and no less than 1-Flat of the most.
// The plateau is seen where a fifth more was asked for than at its begin, and where
// what is achieved grows less than the fourth root of that. Its height is the mean over
// all runs on it.
func Sustained(loads []Load) Throughput {
	loads = slices.DeleteFunc(slices.Clone(loads), func(l Load) bool { return len(l.Achieved) == 0 })
	if len(loads) == 0 {
		return Throughput{Shape: Unmeasured}
	}
	most := slices.MaxFunc(loads, func(a, b Load) int { return cmp.Compare(a.meanAchieved(), b.meanAchieved()) })
	out := Throughput{Shape: Following}
	var on []Load
	for _, l := range loads {
		if onPlateau(l, most.meanAchieved()) {
			on = append(on, l)
		}
	}
	for _, l := range loads {
		if l.Asked > 0 && !l.isShort() && (len(on) == 0 || l.Value < on[0].Value) {
			out.Follows = &l.Value
		}
	}
	last := loads[len(loads)-1]
	switch {
	case len(on) > 0 && isFlat(on, last):
		out.Shape = Plateau
	case last.Asked == 0 || last.isShort():
		out.Shape, on = Open, []Load{most}
	default:
		on = []Load{last}
	}
	out.From, out.To = on[0].Value, on[len(on)-1].Value
	var values []float64
	for _, l := range on {
		values = append(values, l.Achieved...)
	}
	e := stats.Mean(values)
	out.Value, out.Runs = e.Value, e.Samples
	if e.Bounded() {
		out.Interval = &e.Interval
	}
	if last.meanAchieved() < (1-Flat)*out.Value && last.Value > out.To {
		out.Falls = &RatePoint{Point: []float64{last.Value}, Asked: last.Asked, Achieved: last.meanAchieved(), Runs: len(last.Achieved), Short: last.isShort()}
	}
	return out
}

// onPlateau tells whether a load brings as much as the most that was achieved,
// and could not have brought more.
func onPlateau(l Load, most float64) bool {
	return (l.Asked == 0 || l.isShort()) && l.meanAchieved() >= (1-Flat)*most
}

// isFlat tells whether more was asked than at the begin of a plateau without
// bringing more.
func isFlat(on []Load, last Load) bool {
	first, end := on[0], on[len(on)-1]
	more := last.Demand / first.Demand
	return more >= further && math.Log(end.meanAchieved()/first.meanAchieved()) <= slope*math.Log(more)
}

// loadsOf returns those of a line, with what its judged runs achieved.
func (s *search) loadsOf(values []float64, point func(v float64) []float64) []Load {
	var out []Load
	for _, v := range values {
		at, judged := s.ratesAt(point(v), s.rate)
		out = append(out, Load{Value: v, Asked: at.Asked, Demand: s.demandAt(point(v), v), Achieved: judged})
	}
	return out
}

// demandAt is how hard the runs of a point asked; where no rate tells, the
// parameter's own value.
func (s *search) demandAt(point []float64, value float64) float64 {
	for _, r := range s.runs {
		if x, ok := r.rateOf(s.rate); ok && slices.Equal(r.Point, point) && demandOf(x) > 0 {
			return demandOf(x)
		}
	}
	return value
}

// pursueThroughput makes a line one that looks for the throughput: a run passes where the
// load is below the plateau, and fails where it is on it or beyond.
func (s *search) pursueThroughput(l *line, point func(v float64) []float64) {
	loads := s.loadsOf(l.values, point)
	most := 0.0
	for _, x := range loads {
		most = max(most, x.meanAchieved())
	}
	for i, v := range l.values {
		l.tallies[i] = tally{}
		for _, r := range s.runs {
			if slices.Equal(r.Point, point(v)) {
				l.tallies[i].countVerdict(s.belowPlateau(r, most))
			}
		}
	}
	t := Sustained(loads)
	if t.Shape != Plateau {
		l.reach = l.valueOutward(loads)
	}
	if t.Shape != Unmeasured { // the ends of the plateau
		l.repeat = []int{slices.Index(l.values, t.From), slices.Index(l.values, t.To)}
	}
}

// belowPlateau tells whether a run's load is below the plateau.
func (s *search) belowPlateau(r Run, most float64) slo.Verdict {
	x, ok := r.rateOf(s.rate)
	switch {
	case !ok || r.Verdict == slo.Unknown:
		return slo.Unknown
	case x.Asked > 0 && !isShort(x.Asked, x.Achieved), x.Asked == 0 && x.Achieved < (1-Flat)*most:
		return slo.Pass
	}
	return slo.Fail
}

// valueOutward is the value at which to see whether more asked brings more; -1 where
// that has been seen, or can no further.
func (l line) valueOutward(loads []Load) int {
	at := -1
	for i := range loads {
		if len(loads[i].Achieved) > 0 {
			at = i
		}
	}
	if at < 0 {
		return -1
	}
	end := at + 1
	for end < len(l.values) && l.tallies[end].majorityVerdict(l.repeats) != inconclusive {
		end++
	}
	if end == at+1 {
		return -1
	}
	return l.doubleLoad(edge{lo: at, hi: end})
}

// newThroughput sums up a line.
func (s *search) newThroughput(l axisLine) Throughput {
	loads := s.loadsOf(l.values, l.point)
	out := Sustained(loads)
	i, _ := l.nextValue()
	out.Done = i < 0
	if len(s.plan.Axes) == 2 {
		out.Fixed = map[string]float64{s.plan.Axes[0].Name: l.fixed}
	}
	if out.Falls != nil {
		out.Falls.Point = l.point(out.Falls.Point[0])
	}
	for _, x := range loads {
		at, judged := s.ratesAt(l.point(x.Value), s.rate)
		if len(judged) > 0 && s.tallyPoint(at.Point).majorityVerdict(s.plan.Repeats) == passes && (out.Within == nil || at.Achieved > out.Within.Achieved) {
			out.Within = &at
		}
	}
	out.Bounds = s.countBounds(out, l)
	return out
}

// countBounds count what limited the plane in the runs on the plateau.
func (s *search) countBounds(t Throughput, l axisLine) []Bounded {
	if t.Shape != Plateau && t.Shape != Open {
		return nil
	}
	var out []Bounded
	for _, r := range s.runs {
		v := r.Point[len(r.Point)-1]
		if r.Bound == "" || r.Verdict == slo.Unknown || v < t.From || v > t.To || !slices.Equal(r.Point, l.point(v)) {
			continue
		}
		i := slices.IndexFunc(out, func(b Bounded) bool { return b.Cause == r.Bound })
		if i < 0 {
			i, out = len(out), append(out, Bounded{Cause: r.Bound})
		}
		out[i].Runs++
	}
	slices.SortStableFunc(out, func(a, b Bounded) int { return b.Runs - a.Runs })
	return out
}

// throughputText says a throughput with its interval, and where it begins.
func (s *search) throughputText(t Throughput) string {
	name := s.plan.Axes[len(s.plan.Axes)-1].Name
	value := unit.Text(t.Value, s.unitOf(s.rate)) + t.intervalText()
	var text string
	switch t.Shape {
	case Plateau:
		text = fmt.Sprintf("%s: more asked than at %s %s brings no more", value, name, unit.Number(t.From))
	case Open:
		text = fmt.Sprintf("at least %s: at %s %s it falls short of what was asked for, and no plateau was seen", value, name, unit.Number(t.To))
	case Following:
		return fmt.Sprintf("at least %s: all that was asked for is achieved up to %s %s, the most", value, name, unit.Number(t.To))
	default:
		return "no run that could be judged tells its rate"
	}
	if t.Follows != nil {
		text += fmt.Sprintf("; up to %s %s all is achieved", name, unit.Number(*t.Follows))
	}
	return text
}

// intervalText is the interval of a throughput with its number of runs.
func (t Throughput) intervalText() string {
	if t.Interval == nil {
		return fmt.Sprintf(" (%d run)", t.Runs)
	}
	return fmt.Sprintf(" (95 %% interval %s to %s, %s)", unit.Number(max(0, t.Interval[0])), unit.Number(t.Interval[1]), unit.Count(t.Runs, "runs"))
}

// concludeThroughput says what a search for the throughput came to.
func (s *search) concludeThroughput(lines []axisLine, out Result) Result {
	out.Verdict = slo.Pass
	for _, l := range lines {
		t := s.newThroughput(l)
		if !t.Done || t.Shape == Unmeasured {
			out.Verdict = slo.Unknown
		}
		out.Throughputs = append(out.Throughputs, t)
	}
	out.Sentence = s.throughputSentence(out.Throughputs)
	out.Warnings = append(out.Warnings, s.throughputWarnings(lines, out.Throughputs)...)
	return out
}

// throughputWarnings returns what casts doubt on a throughput.
func (s *search) throughputWarnings(lines []axisLine, all []Throughput) []string {
	var out []string
	for i, t := range all {
		if f := t.Falls; f != nil {
			out = append(out, fmt.Sprintf("Asked for more it does less: at %s %s are achieved.", s.pointText(f.Point), unit.Text(f.Achieved, s.unitOf(s.rate))))
		}
		if t.Shape == Plateau && t.Interval == nil {
			out = append(out, fmt.Sprintf("One run on the plateau at %s gives no interval: more --repeats do.", s.pointText(lines[i].point(t.From))))
		}
		if text := s.heldText(t); text != "" {
			out = append(out, text)
		}
		if at := slices.IndexFunc(lines[i].tallies, func(t tally) bool { return t.majorityVerdict(s.plan.Repeats) == inconclusive }); at >= 0 {
			point := lines[i].point(lines[i].values[at])
			out = append(out, fmt.Sprintf("No run at %s could be judged%s.", s.pointText(point), s.whyUnknown(point)))
		}
	}
	out = append(out, s.leftOut()...)
	if !s.demandDiffers() {
		out = append(out, fmt.Sprintf("Nothing that steps ask for grows with %s: give the parameter that sets a rate, or how many calls are under way, last.",
			s.plan.Axes[len(s.plan.Axes)-1].Name))
	}
	return append(out, s.unjudgedWarnings()...)
}

// leftOut names the declared lifecycles that no rate speaks of.
func (s *search) leftOut() []string {
	var names []string
	for _, r := range s.runs {
		for _, x := range r.Rates {
			for _, name := range x.LeftOut {
				if !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("Lifecycle %s is left out: no step's objects have it. Give its objects the label windtunnel.dev/group: {{ .Group }} (or the label that the lifecycle's field group names). "+
		"To search by calls instead, name their rate with --rate.", strings.Join(names, ", "))}
}

// heldText says where the objectives hold, if that is not on all of the plateau.
func (s *search) heldText(t Throughput) string {
	switch {
	case t.Shape == Unmeasured:
	case t.Within == nil:
		return "At no load that was flown do the objectives hold."
	case t.Within.Achieved < (1-Flat)*t.Value:
		return fmt.Sprintf("The objectives hold up to %s achieved only, at %s.", unit.Text(t.Within.Achieved, s.unitOf(s.rate)), s.pointText(t.Within.Point))
	}
	return ""
}

// demandDiffers tells whether runs of different loads asked for different rates.
func (s *search) demandDiffers() bool {
	var loads, demands []float64
	for _, r := range s.runs {
		if x, ok := r.rateOf(s.rate); ok {
			loads, demands = append(loads, r.Point[len(r.Point)-1]), append(demands, demandOf(x))
		}
	}
	return len(loads) == 0 || slices.Max(loads) <= slices.Min(loads)/Kept || slices.Max(demands) > slices.Min(demands)/Kept
}
