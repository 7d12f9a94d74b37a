package slo

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/scenario"
	"github.com/windtunnel/windtunnel/series"
	"github.com/windtunnel/windtunnel/stats"
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
	switch o.SLI {
	case "pod-startup":
		j.podStartup(&r, o)
	case "call-latency":
		j.callLatency(&r, o)
	case "server-latency":
		j.serverLatency(&r, o)
	case "pods-running-rate":
		j.runningRate(&r, o)
	case "pods-bound-rate":
		j.boundRate(&r, o)
	default:
		unmeasured(&r, fmt.Sprintf("this version does not know the SLI %q", o.SLI+o.SLO))
	}
	return []Result{r}
}

// podStartup judges the time between two phases of pods.
func (j *judging) podStartup(r *Result, o *scenario.Objective) {
	from, to, ok := strings.Cut(o.Labels["phase"], "..")
	if !ok {
		from, to = record.PhaseCreated, record.PhaseRunning
	}
	var groups []string
	if g := o.Labels["group"]; g != "" {
		groups = []string{g}
	}
	holdDurations(r, j.phases(r, groups, from, to))
}

// phases collects the time from one phase to another of the pods of some
// groups. Pods that a wait step asks for and that were never seen count as not
// having got anywhere, which r's warnings then say.
func (j *judging) phases(r *Result, groups []string, from, to string) *stats.Durations {
	d := &stats.Durations{}
	seen := map[string]int{}
	for _, l := range j.f.pods(groups) {
		l.durations(d, from, to, j.f)
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
		case s.Wait != nil && s.Wait.Are != "gone" && rank(s.Wait.Are) >= rank(phase) && j.reachedStep(s.Name):
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
			if c.Source == sourceLoad && c.Step == s.Name && c.Verb == "create" && c.Resource == "pods" && c.Subresource == "" {
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
	return slices.ContainsFunc(j.f.Marks, func(m record.Mark) bool {
		return m.Kind == record.MarkStepBegin && m.Name == name
	})
}

// holdDurations holds a statistic of durations against a result's threshold.
func holdDurations(r *Result, d *stats.Durations) {
	q, ok := stats.Parse(r.Statistic)
	switch {
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
	holdDurations(r, merged(parts))
	if failed > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d calls failed; they count with the time until their refusal", failed, total))
	}
	if unanswered > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d calls had no answer; they count as lasting longer than was waited", unanswered, total))
	}
}

// matches reports whether an operation has these labels. Calls are the load's
// unless the label source says otherwise.
func matches(c *Calls, labels map[string]string) bool {
	have := map[string]string{"source": c.Source, "step": c.Step, "verb": c.Verb, "resource": c.Resource,
		"subresource": c.Subresource, "scope": c.Scope}
	if labels["source"] == "" && c.Source != sourceLoad {
		return false
	}
	for name, value := range labels {
		if have[name] != value {
			return false
		}
	}
	return true
}

// serverLatency judges the server's own histogram, all matching requests
// together, whoever sent them.
func (j *judging) serverLatency(r *Result, o *scenario.Objective) {
	verbs := serverVerbs(o.Labels["verb"])
	groups, known := j.f.Series.Histograms(series.HistogramQuery{
		Target: apiServer, Family: sliFamily, From: j.f.Begin, To: j.f.End,
		Keep: func(s *series.Series) bool {
			return (len(verbs) == 0 || slices.Contains(verbs, s.Label("verb"))) && s.Label("verb") != "WATCH" &&
				s.Label("verb") != "CONNECT" && hasCallLabels(s, o.Labels)
		},
	})
	if trouble := j.serverTrouble(known); trouble != "" {
		unmeasured(r, trouble)
		return
	}
	if len(groups) == 0 {
		unmeasured(r, "no such call was made")
		return
	}
	h := histogram(r, groups[0])
	q, ok := stats.Parse(r.Statistic)
	switch {
	case r.Statistic == "max":
		hold(r, h.Quantile(1), true)
	case r.Statistic == "mean":
		mean := groups[0].Sum / h.Count()
		hold(r, stats.Estimate{Value: mean, Low: mean, High: mean, Samples: int(h.Count()),
			Interval: [2]float64{math.Inf(-1), math.Inf(1)}}, false)
	case ok:
		hold(r, h.Quantile(q), true)
	default:
		unknownStatistic(r)
	}
}

// serverVerbs are the verbs by which the server's metrics know an API verb.
func serverVerbs(verb string) []string {
	switch verb {
	case "":
		return nil
	case "create":
		return []string{"POST"}
	case "update":
		return []string{"PUT"}
	case "patch":
		return []string{"PATCH", "APPLY"}
	}
	return []string{strings.ToUpper(verb)}
}

// hasCallLabels reports whether a series of the server has an objective's labels.
func hasCallLabels(s *series.Series, labels map[string]string) bool {
	resource := s.Label("resource")
	if g := s.Label("group"); g != "" {
		resource += "." + g
	}
	have := map[string]string{"resource": resource, "subresource": s.Label("subresource"), "scope": s.Label("scope")}
	for name, value := range labels {
		if name != "verb" && have[name] != value {
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
	lives := j.f.pods(groups)
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
func ratePerSecond(lives []*Lives, from, to string) (rate float64, n int) {
	var begin, end span
	for _, l := range lives {
		begin.join(l.span(from))
		end.join(l.span(to))
		n += l.Reached(to)
	}
	took := end.last.Sub(begin.first)
	if !begin.any || !end.any || took < time.Millisecond {
		return 0, n
	}
	return float64(n) / took.Seconds(), n
}
