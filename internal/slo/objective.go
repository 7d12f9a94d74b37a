package slo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/run"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// objective judges one objective of the scenario.
func (j *judging) objective(o *scenario.Objective) []Result {
	if o.SLO == "kubernetes" {
		return j.official(o)
	}
	if o.Unsupported != "" {
		r := Result{Name: o.Name}
		unmeasured(&r, o.Unsupported)
		return []Result{r}
	}
	r := Result{Name: o.Name, SLI: o.SLI, Labels: o.Labels, Statistic: o.Statistic, Unit: "seconds"}
	if r.Name == "" {
		r.Name = o.SLI
	}
	switch {
	case o.Max != nil:
		r.Threshold = *o.Max
	case o.Min != nil:
		r.Threshold, r.AtLeast = *o.Min, true
	}
	if o.Query != "" {
		return j.queried(r, o)
	}
	if x, ok := sli.Find(o.SLI); ok && x.Kind != sli.Records {
		return j.tabled(r, o, x)
	}
	return j.recorded(r, o)
}

// podStartup judges the time between two phases of pods.
func (j *judging) podStartup(r *Result, o *scenario.Objective) {
	from, to, ok := strings.Cut(o.Labels["phase"], "..")
	if !ok {
		from, to = record.PhaseCreated, record.PhaseRunning
	}
	groups, some := j.inState(o.Labels)
	if !some {
		unmeasured(r, "no group has "+o.Labels["state"]+" pods")
		return
	}
	j.holdDurations(r, j.phases(r, groups, from, to))
}

// phases collects the time from one phase to another of the pods of some
// groups. Pods that a wait step asks for and that were never seen count as not
// having got anywhere, which r's warnings then say.
func (j *judging) phases(r *Result, groups []string, from, to string) *stats.Durations {
	d := &stats.Durations{}
	seen := map[string]int{}
	for _, l := range j.f.Pods(groups) {
		l.Durations(d, from, to, j.f.Facts)
		seen[l.Group] += l.Reached(from)
	}
	for _, missing := range j.missing(groups, from, seen) {
		for range missing.n {
			d.AddBetween(0, stats.Forever)
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of the %d pods of group %s were never seen %s",
			missing.n, missing.want, missing.group, from))
	}
	return d
}

// missing is how many pods of a group a wait asks for and nobody saw.
type missing struct {
	group   string
	n, want int
}

// missing compares what was seen in a phase with the most that a wait step
// asks for of that phase or a later one, and with the pods that the load
// created itself.
func (j *judging) missing(groups []string, phase string, seen map[string]int) []missing {
	want := map[string]int{}
	for s := range j.sc.AllSteps() {
		switch {
		case s.Wait != nil && s.Wait.Are != "deleted" && rank(s.Wait.Are) >= rank(phase) && j.reachedStep(s.Name):
			want[s.Wait.Pods] = max(want[s.Wait.Pods], s.Wait.Count)
		case s.Create != nil:
			want[s.Create.Group] = max(want[s.Create.Group], j.podsCreated(s.Create.Group))
		}
	}
	var out []missing
	for _, group := range slices.Sorted(maps.Keys(want)) {
		if n := want[group] - seen[group]; n > 0 && (len(groups) == 0 || slices.Contains(groups, group)) {
			out = append(out, missing{group, n, want[group]})
		}
	}
	return out
}

// podsCreated is how many pods of a group the load created by itself, with
// success: none where it creates deployments and the like.
func (j *judging) podsCreated(group string) (n int) {
	for s := range j.sc.AllSteps() {
		if s.Create == nil || s.Create.Group != group {
			continue
		}
		for _, c := range j.f.Calls {
			if c.Source == run.Load && c.Step == s.Name && c.Verb == "create" && c.Resource == "pods" && c.Subresource == "" {
				n += c.Outcomes[record.OK]
			}
		}
	}
	return n
}

// rank is a phase's place in a pod's life.
func rank(phase string) int {
	return slices.Index([]string{record.PhaseCreated, record.PhaseBound, record.PhaseRunning, record.PhaseReady,
		record.PhaseFinished, record.PhaseDeleting, record.PhaseDeleted}, phase)
}

// reachedStep reports whether a step was begun.
func (j *judging) reachedStep(name string) bool {
	return slices.ContainsFunc(j.f.Events, func(m record.Event) bool {
		return m.Type == record.EventStepBegan && m.Name == name
	})
}

// holdDurations holds a statistic of durations against a result's threshold.
// Their rate is how many there were per second of the run.
func (j *judging) holdDurations(r *Result, d *stats.Durations) {
	q, ok := stats.Parse(r.Statistic)
	n, seconds := float64(d.Len()), j.f.End.Sub(j.f.Begin).Seconds()
	switch {
	case r.Statistic == "sum":
		mean := d.Mean()
		sum := exactly(mean.Value*n, n)
		sum.Low, sum.High, sum.Warnings = mean.Low*n, mean.High*n, mean.Warnings
		hold(r, sum, false)
	case r.Statistic == "rate" && seconds > 0:
		r.Unit = "1/s"
		hold(r, exactly(n/seconds, n), false)
	case r.Statistic == "max":
		hold(r, d.Max(), false)
	case r.Statistic == "mean":
		hold(r, d.Mean(), false)
	case ok:
		hold(r, d.Quantile(q), false)
	default:
		unknownStatistic(r)
	}
}

func unknownStatistic(r *Result) {
	unmeasured(r, fmt.Sprintf("%s has no statistic %q", r.SLI, r.Statistic))
}

// callLatency judges the load's own calls, from the moment when each was due.
// A call that was refused counts with the time until its refusal; one without
// an answer counts as lasting at least as long as was waited for it.
func (j *judging) callLatency(r *Result, o *scenario.Objective) {
	var parts []*stats.Durations
	var failed, unanswered, total int
	for _, c := range j.f.Calls {
		if !matches(c, o.Labels) {
			continue
		}
		parts = append(parts, &c.Latency)
		total += c.Count()
		failed += c.Outcomes[record.Failed]
		unanswered += c.Outcomes[record.Unknown]
	}
	j.holdDurations(r, stats.Merged(parts))
	if failed > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d calls failed; they count with the time until their refusal", failed, total))
	}
	if unanswered > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d calls had no answer; they count as lasting longer than was waited", unanswered, total))
	}
}

// matches reports whether an operation has these labels. Calls are the load's
// unless the label source says otherwise.
func matches(c *run.Calls, labels map[string]string) bool {
	have := c.Labels()
	if labels["source"] == "" && c.Source != run.Load {
		return false
	}
	for name, value := range labels {
		if have[name] != value {
			return false
		}
	}
	return true
}

// runningRate judges how many pods a second came to run, from the creation of
// a group's first to the first receipt of its last one running.
func (j *judging) runningRate(r *Result, o *scenario.Objective) {
	r.Unit = "1/s"
	var groups []string
	if g := o.Labels["group"]; g != "" {
		groups = []string{g}
	}
	lives := j.f.Pods(groups)
	rate, n := ratePerSecond(lives, record.PhaseCreated, record.PhaseRunning)
	seen := map[string]int{}
	for _, l := range lives {
		seen[l.Group] += l.Reached(record.PhaseRunning)
	}
	e := stats.Estimate{Value: rate, Low: rate, High: rate, Samples: n, Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
	if rate == 0 {
		e.Samples = 0
	}
	hold(r, e, false)
	for _, m := range j.missing(groups, record.PhaseRunning, seen) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of the %d pods of group %s never ran", m.n, m.want, m.group))
	}
}

// ratePerSecond returns how many objects reached a phase, divided by the time
// from the first one in an earlier phase to the last one in this: the
// throughput that a person with a stopwatch would give. 0 where that time is
// unknown or shorter than a millisecond.
func ratePerSecond(lives []*run.Lifecycles, from, to string) (rate float64, n int) {
	var begin, end run.Span
	for _, l := range lives {
		begin.Join(l.Span(from))
		end.Join(l.Span(to))
		n += l.Reached(to)
	}
	took := end.Last.Sub(begin.First)
	if !begin.Any || !end.Any || took < time.Millisecond {
		return 0, n
	}
	return float64(n) / took.Seconds(), n
}
