package slo

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// podStartup judges the time between two phases of pods.
func (c records) podStartup(r *Result, o *scenario.Objective) {
	from, to, ok := strings.Cut(o.Labels["phase"], "..")
	if !ok {
		from, to = record.PhaseCreated, record.PhaseRunning
	}
	groups, some := c.pods.inState(o.Labels)
	if !some {
		setUnmeasured(r, "no group has "+o.Labels["state"]+" pods")
		return
	}
	c.holdDurations(r, c.pods.collectDurations(r, o.Labels, groups, from, to))
}

// holdDurations holds a statistic of durations against a result's threshold.
// Their rate is how many there were per second of the run.
func (c records) holdDurations(r *Result, d *stats.Durations) {
	q, ok := stats.Parse(r.Statistic)
	n, seconds := float64(d.Len()), c.f.End.Sub(c.f.Begin).Seconds()
	switch {
	case r.Statistic == "sum":
		mean := d.Mean()
		sum := exactEstimate(mean.Value*n, n)
		sum.Low, sum.High, sum.Warnings = mean.Low*n, mean.High*n, mean.Warnings
		holdAgainstThreshold(r, sum, false)
	case r.Statistic == "rate" && seconds > 0:
		r.Unit = "1/s"
		holdAgainstThreshold(r, exactEstimate(n/seconds, n), false)
	case r.Statistic == "max":
		holdAgainstThreshold(r, d.Max(), false)
	case r.Statistic == "mean":
		holdAgainstThreshold(r, d.Mean(), false)
	case ok:
		holdAgainstThreshold(r, d.Quantile(q), false)
	default:
		unknownStatistic(r)
	}
}

func unknownStatistic(r *Result) {
	setUnmeasured(r, fmt.Sprintf("%s has no statistic %q", r.SLI, r.Statistic))
}

// callLatency judges the load's own calls, from the moment when each was due.
// A call that was refused counts with the time until its refusal; one without
// an answer counts as lasting at least as long as was waited for it.
func (c records) callLatency(r *Result, o *scenario.Objective) {
	var parts []*stats.Durations
	var failed, unanswered, total int
	for _, calls := range c.f.Calls {
		if !matchesLabels(calls, o.Labels) {
			continue
		}
		parts = append(parts, &calls.Latency)
		total += calls.Count()
		failed += calls.Outcomes[record.Failed]
		unanswered += calls.Outcomes[record.Unknown]
	}
	r.Failed = failed + unanswered
	c.holdDurations(r, stats.Merged(parts))
	if r.Failed == total && r.Verdict == Pass {
		r.Verdict = Unknown
		r.Warnings = append(r.Warnings, fmt.Sprintf("all %s failed: how long one takes that succeeds is not known", unit.Count(total, "calls")))
		return
	}
	if failed > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d calls failed; they count with the time until their refusal", failed, total))
	}
	if unanswered > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d calls had no answer; they count as lasting longer than was waited", unanswered, total))
	}
}

// callOutages judges the times in which the load's calls were not served.
func (c records) callOutages(r *Result, o *scenario.Objective) {
	var all []run.Outage
	var calls int
	for _, one := range c.f.Calls {
		if matchesLabels(one, o.Labels) {
			all, calls = append(all, one.Outages.All()...), calls+one.Count()
		}
	}
	all = run.MergeOutages(all)
	var longest, sum float64
	for _, one := range all {
		took := one.End.Sub(one.Begin).Seconds()
		longest, sum = max(longest, took), sum+took
	}
	switch r.Statistic {
	case "max":
		holdAgainstThreshold(r, exactEstimate(longest, float64(calls)), false)
	case "sum":
		holdAgainstThreshold(r, exactEstimate(sum, float64(calls)), false)
	case "count":
		r.Unit = "outages"
		holdAgainstThreshold(r, exactEstimate(float64(len(all)), float64(calls)), false)
	default:
		unknownStatistic(r)
	}
}

// matchesLabels reports whether an operation has these labels. Calls are the load's
// unless the label source says otherwise.
func matchesLabels(c *run.Calls, labels map[string]string) bool {
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
func (c records) runningRate(r *Result, o *scenario.Objective) {
	r.Unit = "1/s"
	groups := groupsOf(o.Labels)
	all := inCluster(c.f.Pods(groups), o.Labels)
	rate, n := ratePerSecond(all, record.PhaseCreated, record.PhaseRunning)
	seen := map[string]int{}
	for _, l := range all {
		seen[l.Group] += l.Reached(record.PhaseRunning)
	}
	e := stats.Estimate{Value: rate, Low: rate, High: rate, Samples: n, Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
	if rate == 0 {
		e.Samples = 0
	}
	holdAgainstThreshold(r, e, false)
	for _, m := range c.pods.findMissing(o.Labels, groups, record.PhaseRunning, seen) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of the %d pods of group %s never ran", m.n, m.want, m.group))
	}
}

// ratePerSecond returns how many objects reached a phase, divided by the time
// from the first one in an earlier phase to the last one in this: the
// throughput that a person with a stopwatch would give. 0 where that time is
// unknown or shorter than a millisecond.
func ratePerSecond(all []*run.Lifecycles, from, to string) (rate float64, n int) {
	var begin, end run.Span
	for _, l := range all {
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
