package assess

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Answer is what the runs say of one subject.
type Answer struct {
	About     string   `json:"about"`
	Measured  bool     `json:"measured"`
	Sentences []string `json:"sentences"` // where it was not measured: why
	Lines     []Line   `json:"lines,omitempty"`
	Param     string   `json:"parameter,omitempty"` // of Rows
	Values    []string `json:"values,omitempty"`    // of Param
	Rows      []Row    `json:"rows,omitempty"`
}

// The subjects of answers, beside the topics.
const (
	aboutRequests = "requests"
	aboutObjects  = "objects"
	aboutBytes    = "bytes"
	aboutMemory   = "memory"
	aboutCPU      = "cpu"
	aboutLimits   = "limits"
	aboutFlown    = "flown"
	aboutTimes    = "times"
	aboutBounds   = "objectives"
)

// Subject is what is assessed.
type Subject struct {
	Programs []string `json:"programs"` // that are tested with the plane
	Seed     uint64   `json:"seed"`
}

// answering makes answers of runs.
type answering struct {
	Subject
	plan Plan
	runs [][]Observation // by arm, those that came to their end
	size Sweep
}

// Answers says what the runs say of each subject; runs that did not come to their end say
// nothing.
func Answers(p Plan, s Subject, all []Observation) []Answer {
	x := &answering{Subject: s, plan: p, runs: make([][]Observation, len(p.Arms))}
	x.size, _ = p.Sweep(Size)
	for _, o := range all {
		if o.Run.Unfit() == "" {
			x.runs[o.Arm] = append(x.runs[o.Arm], o)
		}
	}
	out := []Answer{
		x.perObject(aboutRequests, "all requests", Observation.requestFigures),
		x.perObject(aboutObjects, "all objects", Observation.objectFigures),
		x.perObject(aboutBytes, "log written by etcd", Observation.byteFigures),
		x.perObject(aboutMemory, memoryOf, func(o Observation) []Figure { return o.memoryFigures(s.Programs) }),
		x.perObject(aboutCPU, cpuOf, func(o Observation) []Figure { return o.cpuFigures(s.Programs) }),
		x.sweep(Size, aboutTimes), x.limits(), x.churn(), x.sweep(Workers, string(Workers)), x.sweep(Limiter, string(Limiter)),
		x.sweep(Restart, string(Restart)), x.sweep(Resync, string(Resync)), x.webhooks(), x.objectives(), x.flown(),
	}
	for i := range out {
		out[i].Measured = out[i].Measured && len(out[i].Sentences) > 0
	}
	return out
}

func notMeasured(about, why string) Answer { return Answer{About: about, Sentences: []string{why}} }

// perObject fits figures over the sizes. first is the one that is said in words, or how
// those of the tested programs begin.
func (x *answering) perObject(about, first string, of func(Observation) []Figure) Answer {
	var sizes []float64
	var figures [][]Figure
	for i, arm := range x.size.Arms {
		for _, o := range x.runs[arm] {
			sizes, figures = append(sizes, toNumber(x.size.Values[i])), append(figures, of(o))
		}
	}
	a := Answer{About: about, Measured: true, Lines: lines(sizes, figures, x.Seed)}
	if different := len(slices.Compact(slices.Sorted(slices.Values(sizes)))); different < 2 || len(sizes) < 3 {
		return notMeasured(about, fmt.Sprintf("%s of %s finished: a line needs 3 runs of 2 sizes.", unit.Count(len(sizes), "runs"), unit.Count(different, "sizes")))
	}
	if len(a.Lines) == 0 {
		return notMeasured(about, "No such figure was recorded in all of these runs.")
	}
	for _, l := range a.Lines {
		if program, ok := strings.CutPrefix(l.Name, first); ok && (program == "" || slices.Contains(x.Programs, program)) {
			a.Sentences = append(a.Sentences, x.sentence(l, len(sizes)))
		}
	}
	if len(a.Sentences) == 0 {
		a.Sentences = []string{fmt.Sprintf("From %s of %s.", unit.Count(len(sizes), "runs"), unit.Count(len(x.size.Values), "sizes"))}
	}
	return a
}

// sentence says a line in words.
func (x *answering) sentence(l Line, runs int) string {
	if !l.grows() {
		return fmt.Sprintf("%s: no growth with %s stands out from what %s differ by: %s without objects, %s for each.", l.Name, x.size.Param, unit.Count(runs, "runs"), l.Intercept.text(l.Unit), l.Slope.text(l.Unit))
	}
	out := fmt.Sprintf("%s: %s, and %s for each of %s (95 %% intervals, %s of %s from %s to %s).", l.Name, l.Intercept.text(l.Unit), l.Slope.text(l.Unit), x.size.Param,
		unit.Count(runs, "runs"), unit.Count(len(x.size.Values), "sizes"), x.size.Values[0], x.size.Values[len(x.size.Values)-1])
	if l.Shape == "superlinear" {
		out += " It grows faster than a line: do not extrapolate."
	}
	return out
}

// table makes the rows of a sweep's runs; param stands for what is varied.
func (x *answering) table(s Sweep, about string) Answer {
	var figures [][][]Figure
	for _, arm := range s.Arms {
		var of [][]Figure
		for _, o := range x.runs[arm] {
			of = append(of, o.sweepFigures(x.Programs))
		}
		figures = append(figures, of)
	}
	return Answer{About: about, Measured: true, Param: s.Param, Values: s.Values, Rows: rows(figures)}
}

// missing says why a topic has no runs.
func (x *answering) missing(t Topic) string {
	return fmt.Sprintf("No run varies it: name the scenario's parameter with --%s-param.", t)
}

// finished says which values of a sweep have runs.
func (x *answering) finished(s Sweep) (n int) {
	for _, arm := range s.Arms {
		if len(x.runs[arm]) > 0 {
			n++
		}
	}
	return n
}

// sweep says how figures change with a parameter.
func (x *answering) sweep(t Topic, about string) Answer {
	s, ok := x.plan.Sweep(t)
	if !ok {
		return notMeasured(about, x.missing(t))
	}
	if n := x.finished(s); n < 2 {
		return notMeasured(about, fmt.Sprintf("%s of %s finished: %s.", unit.Count(n, "values"), s.Param, x.why(s)))
	}
	a := x.table(s, about)
	first, last := 0, len(s.Values)-1
	n, chance := 0, 0.0
	for _, r := range a.Rows {
		if c, ok := apart(r.Cells[first], r.Cells[last]); ok {
			n, chance = n+1, c
		}
	}
	between := fmt.Sprintf("%s=%s and %s=%s", s.Param, s.Values[first], s.Param, s.Values[last])
	if n == 0 {
		a.Sentences = []string{fmt.Sprintf("No figure lies apart between %s in %s each.", between, unit.Count(x.plan.Repeats, "runs"))}
		return a
	}
	a.Sentences = []string{fmt.Sprintf("%d of %s %s apart in all runs of %s; by chance alone each does so once in %.0f times.", n, unit.Count(len(a.Rows), "figures"), unit.Verb(n, "lies", "lie"), between, 1/chance)}
	return a
}

// why says why runs of a sweep are missing.
func (x *answering) why(s Sweep) string {
	return fmt.Sprintf("runs of %s=%s are missing or ended early", s.Param, strings.Join(s.Values, ", "))
}

// tally counts the verdicts of an arm.
func (x *answering) tally(arm int) (pass, fail, unknown int) {
	for _, o := range x.runs[arm] {
		switch o.Run.Judgement.Verdict {
		case slo.Pass:
			pass++
		case slo.Fail:
			fail++
		default:
			unknown++
		}
	}
	return pass, fail, unknown
}

// limits says the largest size that passes, and what gives way beyond.
func (x *answering) limits() Answer {
	a := Answer{About: aboutLimits, Measured: true}
	largest, beyond, doubtful := "", -1, -1 // arms
	for i, arm := range x.size.Arms {
		switch pass, fail, unknown := x.tally(arm); {
		case fail > 0:
			beyond = arm
		case unknown > 0 || pass == 0:
			doubtful = arm
		default:
			largest = x.size.Values[i]
		}
		if beyond >= 0 || doubtful >= 0 {
			break
		}
	}
	if largest != "" {
		a.Sentences = append(a.Sentences, fmt.Sprintf("The largest value of %s that passes in all runs is %s.", x.size.Param, largest))
	}
	switch {
	case beyond >= 0:
		a.Sentences = append(a.Sentences, x.givesWay(beyond)...)
	case doubtful >= 0:
		a.Sentences = append(a.Sentences, fmt.Sprintf("At %s it cannot be told: %s.", x.plan.Arms[doubtful].Name, x.doubt(doubtful)))
		a.Measured = largest != ""
	default:
		a.Sentences = append(a.Sentences, "All sizes that were flown pass, so that the limit is above: name larger sizes with --size-param.")
	}
	return a
}

// givesWay says what failed in an arm and why.
func (x *answering) givesWay(arm int) (out []string) {
	_, fail, _ := x.tally(arm)
	out = append(out, fmt.Sprintf("At %s, %d of %s failed.", x.plan.Arms[arm].Name, fail, unit.Count(len(x.runs[arm]), "runs")))
	for _, o := range x.runs[arm] {
		if o.Run.Judgement.Verdict != slo.Fail {
			continue
		}
		for _, r := range o.Run.Judgement.Objectives {
			if r.Verdict == slo.Fail && r.Value != nil {
				out = append(out, fmt.Sprintf("%s is %s, bound %s.", objectiveName(r), unit.Text(*r.Value, r.Unit), unit.Text(r.Threshold, r.Unit)))
			}
		}
		if f := o.Run.Findings; len(f) > 0 && f[0].Cause != diagnose.Nothing {
			out = append(out, "What limited it most: "+f[0].Sentence)
		} else {
			out = append(out, "The diagnosis found no component at a limit.")
		}
		return out // one run tells it; the others are in the bundle
	}
	return out
}

// doubt says why the verdict of an arm is not known.
func (x *answering) doubt(arm int) string {
	for _, o := range x.runs[arm] {
		if o.Run.Judgement.Verdict == slo.Unknown {
			return strings.TrimSuffix(cmp.Or(o.Run.Warning(), "its verdict is unknown"), ".")
		}
	}
	if len(x.runs[arm]) == 0 {
		return "no run finished"
	}
	return "its runs have a verdict"
}

// Noise says in how many runs other processes took more of the machine than the runs allow:
// counts are right all the same, times and CPU are not. Empty where in none.
func Noise(all []Observation) string {
	n, most := 0, 0.0
	for _, o := range all {
		share := o.Run.Judgement.Measures["host_others_share"].Value
		if most = max(most, share); share > o.Run.Manifest.Neighbours() {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Noisy machine: in %d of %s other processes used more of the CPU than allowed, at most %s. Times, CPU and rates contain their effect: differences of these figures may be theirs. Counts of requests and objects are not affected in this way.", n, unit.Count(len(all), "runs"), unit.Text(most, "ratio"))
}

// sameLength is up to which factor runs of two sides last equally long.
const sameLength = 1.1

// Lengths says of the runs of two sides that they do not last equally long: what happens
// periodically is then in proportion to that. Empty where they do.
func Lengths(off, on []Observation) string {
	median := func(all []Observation) float64 {
		var out []float64
		for _, o := range all {
			out = append(out, o.Run.Judgement.Measures["run_seconds"].Value)
		}
		return stats.Median(out).Value
	}
	a, b := median(off), median(on)
	if a <= 0 || b <= 0 || max(a, b) < sameLength*min(a, b) {
		return ""
	}
	return fmt.Sprintf("The runs last %s without it and %s with it (medians). Requests that are sent periodically, such as those for leases, are in proportion to that.", unit.Text(a, "seconds"), unit.Text(b, "seconds"))
}

// churn says which rate of changes is sustained.
func (x *answering) churn() Answer {
	s, ok := x.plan.Sweep(Rate)
	if !ok {
		return notMeasured(string(Rate), x.missing(Rate))
	}
	runs := slices.DeleteFunc(rateRuns(s, slices.Concat(x.runs...)), func(r capacity.Run) bool { return r.Verdict == slo.Unknown }) // a late instrument sends less than was asked for
	name := capacity.Plan{Goal: capacity.ThroughputGoal}.RateName(runs)
	a := x.table(s, string(Rate))
	var loads []capacity.Load
	of := ""
	for _, r := range runs {
		for _, rate := range r.Rates {
			if rate.Name != name {
				continue
			}
			of = rate.Unit
			if n := len(loads); n == 0 || loads[n-1].Value != r.Point[0] {
				loads = append(loads, capacity.Load{Value: r.Point[0], Asked: rate.Asked, Demand: max(rate.Asked, float64(rate.Parallel))})
			}
			loads[len(loads)-1].Achieved = append(loads[len(loads)-1].Achieved, rate.Achieved)
		}
	}
	if len(loads) < 2 {
		a.Measured = false
		a.Sentences = []string{fmt.Sprintf("%s of %s %s runs with a verdict and a rate; two are needed. Of %s: %s.", unit.Count(len(loads), "values"), s.Param, unit.Verb(len(loads), "has", "have"), x.plan.Arms[s.Arms[len(s.Arms)-1]].Name, x.doubt(s.Arms[len(s.Arms)-1]))}
		return a
	}
	a.Sentences = append([]string{churnSentence(capacity.Sustained(loads), s.Param, name, of)}, x.knee(s, a.Rows)...)
	return a
}

// rateRuns are the runs of a sweep of rates, by ascending rate.
func rateRuns(s Sweep, all []Observation) (out []capacity.Run) {
	for i, arm := range s.Arms {
		for _, o := range all {
			if o.Arm == arm && o.Run.Unfit() == "" {
				out = append(out, capacity.Run{Point: []float64{toNumber(s.Values[i])}, Rates: o.Run.Judgement.Rates, Verdict: o.Run.Judgement.Verdict, Seconds: o.Run.Judgement.Measures["run_seconds"].Value})
			}
		}
	}
	return out
}

// churnSentence says what rate is sustained.
func churnSentence(t capacity.Throughput, param, name, of string) string {
	value := unit.Text(t.Value, of)
	if t.Interval != nil && t.Interval[0] > 0 { // of two runs that differ it tells nothing
		value += fmt.Sprintf(" (95 %% interval %s to %s)", unit.Number(t.Interval[0]), unit.Number(t.Interval[1]))
	}
	switch t.Shape {
	case capacity.Plateau:
		out := fmt.Sprintf("%s: at most %s, from %s=%s on: more asked brings no more.", name, value, param, unit.Number(t.From))
		if t.Falls != nil {
			out += fmt.Sprintf(" At %s=%s it falls to %s.", param, unit.Number(t.Falls.Point[0]), unit.Text(t.Falls.Achieved, of))
		}
		return out
	case capacity.Following:
		return fmt.Sprintf("%s: all that was asked for was achieved up to %s=%s (%s): no knee among these rates, name larger ones with --rate-param.", name, param, unit.Number(t.To), value)
	case capacity.Open:
		return fmt.Sprintf("%s: at %s=%s less than what was asked for was achieved, and no plateau was seen: at least %s.", name, param, unit.Number(t.To), value)
	}
	return name + ": not measured."
}

// knee says where the first latency among the objectives turns up.
func (x *answering) knee(s Sweep, all []Row) []string {
	i := slices.IndexFunc(all, func(r Row) bool { return r.Unit == "seconds" && !strings.HasPrefix(r.Name, cpuOf) })
	if i < 0 {
		return []string{"No objective is a latency, so that there is none to turn up."}
	}
	var points []stats.Point
	for v, c := range all[i].Cells {
		if c.Runs > 0 {
			points = append(points, stats.Point{X: toNumber(s.Values[v]), Y: c.Median})
		}
	}
	if len(points) < stats.MinKnee {
		return []string{fmt.Sprintf("A knee of %s needs %s or more; flown: %d.", all[i].Name, unit.Count(stats.MinKnee, "rates"), len(points))}
	}
	if at, ok := stats.Knee(points); ok {
		return []string{fmt.Sprintf("The curve of %s turns up at %s=%s (%s).", all[i].Name, s.Param, unit.Number(at.X), unit.Text(at.Y, all[i].Unit))}
	}
	return []string{fmt.Sprintf("The curve of %s has no clear knee among these rates.", all[i].Name)}
}

// webhooks says which share of the time of writes admission webhooks take.
func (x *answering) webhooks() Answer {
	a := Answer{About: string(Webhook)}
	if _, ok := x.plan.Sweep(Webhook); ok {
		a = x.sweep(Webhook, string(Webhook))
	}
	arm := x.size.Arms[len(x.size.Arms)-1]
	var shares, calls []float64
	for _, o := range x.runs[arm] {
		if o.Webhooks.Writes > 0 {
			shares, calls = append(shares, o.Webhooks.Seconds/o.Webhooks.Writes), append(calls, o.Webhooks.Calls)
		}
	}
	switch {
	case len(shares) == 0:
		a.Sentences = append(a.Sentences, "The request durations of the API server were not recorded in runs of "+x.plan.Arms[arm].Name+".")
		return a
	case slices.Max(calls) == 0:
		a.Sentences = append(a.Sentences, fmt.Sprintf("At %s, the API server called no admission webhook in %s.", x.plan.Arms[arm].Name, unit.Count(len(calls), "runs")))
	default:
		a.Sentences = append(a.Sentences, fmt.Sprintf("At %s, admission webhooks took %s to %s of the time of requests that write (%s, %s to %s calls of webhooks).", x.plan.Arms[arm].Name,
			unit.Text(slices.Min(shares), "ratio"), unit.Text(slices.Max(shares), "ratio"), unit.Count(len(shares), "runs"), unit.Number(slices.Min(calls)), unit.Number(slices.Max(calls))))
	}
	a.Measured = true
	return a
}

// objectives says what the scenario bounds.
func (x *answering) objectives() Answer {
	all := slices.Concat(x.runs...)
	if len(all) == 0 {
		return notMeasured(aboutBounds, "No run finished.")
	}
	a := Answer{About: aboutBounds, Measured: true}
	for _, r := range all[0].Run.Judgement.Objectives {
		bound := "at most"
		if r.AtLeast {
			bound = "at least"
		}
		a.Sentences = append(a.Sentences, fmt.Sprintf("%s: %s %s (SLI %s).", objectiveName(r), bound, unit.Text(r.Threshold, r.Unit), cmp.Or(r.SLI, "of a query")))
	}
	return a
}

// flown says what was flown and how it ended.
func (x *answering) flown() Answer {
	a := Answer{About: aboutFlown, Measured: true}
	for i, arm := range x.plan.Arms {
		pass, fail, unknown := x.tally(i)
		a.Sentences = append(a.Sentences, fmt.Sprintf("%s: %d of %s finished: %d passed, %d failed, %d unknown.", arm.Name, len(x.runs[i]), unit.Count(x.plan.Repeats, "runs"), pass, fail, unknown))
	}
	return a
}
