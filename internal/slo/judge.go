package slo

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/run"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// Judge holds what a run measured against the scenario's objectives.
//
// The verdict of the whole is unknown when the run was cut short (interrupted,
// a component died, the records end before the run does) or when the
// instrument itself was too slow, whatever the objectives say: a plane is not
// convicted on such evidence. A miss on a machine that did much other work is
// unknown too. Otherwise it is fail if an objective fails, else
// unknown if one is unknown or a step did not do what it should, else pass.
//
// The queries of the scenario are answered from the run's own series. An error
// says that the scenario cannot be read, or that its queries cannot be asked.
func Judge(r *run.Run) (Judgement, error) {
	if r.Unreadable != nil {
		return Judgement{}, r.Unreadable
	}
	f, err := ask(r)
	if err != nil {
		return Judgement{}, err
	}
	sc := r.Scenario
	j := &judging{sc: sc, m: r.Manifest, f: f}
	j.stages, j.renewals = f.fleetLateness()
	var results []Result
	for i := range sc.Objectives {
		results = append(results, j.objective(&sc.Objectives[i])...)
	}
	for i := range results {
		normalise(&results[i])
	}
	slices.SortStableFunc(results, worstFirst)
	out := Judgement{Scenario: sc.Name, Objectives: results, Self: j.self()}
	out.Measures = j.measures()
	out.Lives = j.lifeSummaries()
	j.lifeMeasures(out.Measures, out.Lives)
	out.Verdict, out.Reasons = j.conclude(results)
	return out, nil
}

// judging is what one judgement works with.
type judging struct {
	sc       *scenario.Scenario
	m        record.Manifest
	f        *facts
	untested []string // official objectives that no call was made for

	unanswered []string // the scenario's own measures whose query had no answer

	stages, renewals *stats.Durations // how late the fleet was
}

// normalise makes the JSON of a result the same whatever way it came about:
// never null where a list or a map is meant.
func normalise(r *Result) {
	if r.Labels == nil {
		r.Labels = map[string]string{}
	}
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if r.Value != nil {
		*r.Value = rounded(*r.Value)
	}
	if r.Interval != nil {
		r.Interval = &[2]float64{rounded(r.Interval[0]), rounded(r.Interval[1])}
	}
}

// rounded takes away the digits that are only floating point's: nothing here is
// known to better than a nanosecond or one in a billion.
func rounded(v float64) float64 {
	if v == 0 || !finite(v) {
		return v
	}
	scale := math.Pow(10, max(9, 9-math.Ceil(math.Log10(math.Abs(v)))))
	if out := math.Round(v*scale) / scale; finite(out) {
		return out
	}
	return v
}

func finite(v float64) bool { return !math.IsInf(v, 0) && !math.IsNaN(v) }

// worstFirst orders fail, unknown, pass, and then by how much of its bound a
// result uses up.
func worstFirst(a, b Result) int {
	weight := func(v Verdict) int { return slices.Index([]Verdict{Fail, Unknown, Pass}, v) }
	return cmp.Or(cmp.Compare(weight(a.Verdict), weight(b.Verdict)), -cmp.Compare(usage(a), usage(b)))
}

// usage is how much of its bound a result uses up: 1 is all of it.
func usage(r Result) float64 {
	switch {
	case r.Value == nil:
		return math.Inf(1)
	case r.AtLeast:
		return r.Threshold / *r.Value
	case r.Threshold == 0:
		return *r.Value
	}
	return *r.Value / r.Threshold
}

// conclude gives the verdict of the whole and its reasons, most weighty first.
func (j *judging) conclude(results []Result) (Verdict, []string) {
	cut := j.cutShort()
	slow := j.instrument()
	stopped, noise := j.stopped(), j.noisy()
	failed, unknown := count(results, Fail), count(results, Unknown)
	reasons := slices.Concat(cut, slow, stopped, noise, describe(results, Fail), describe(results, Unknown))
	verdict := Pass
	switch {
	case len(cut) > 0 || len(slow) > 0:
		verdict = Unknown
	case failed > 0 && len(noise) > 0:
		verdict = Unknown // a miss may be the neighbours'; a pass in spite of them is one
	case failed > 0:
		verdict = Fail
	case unknown > 0 || len(stopped) > 0:
		verdict = Unknown
	case len(results) == 0:
		verdict = Unknown
		reasons = append(reasons, "The scenario has no objective that this run could be held against.")
	}
	return verdict, append(reasons, j.notes()...)
}

func count(results []Result, v Verdict) (n int) {
	for _, r := range results {
		if r.Verdict == v {
			n++
		}
	}
	return n
}

// describedResults is how many results of a verdict are spelt out as reasons.
const describedResults = 3

func describe(results []Result, v Verdict) []string {
	var out []string
	left := 0
	for _, r := range results {
		switch {
		case r.Verdict != v:
		case len(out) == describedResults:
			left++
		default:
			out = append(out, sentence(r))
		}
	}
	if left > 0 {
		out = append(out, fmt.Sprintf("And %d more objectives: %s.", left, map[Verdict]string{Fail: "failed", Unknown: "unknown"}[v]))
	}
	return out
}

// sentence says a result that is not a pass in words.
func sentence(r Result) string {
	head := title(r)
	switch {
	case r.Value == nil && len(r.Warnings) > 0:
		return fmt.Sprintf("%s is unknown: %s.", head, r.Warnings[0])
	case r.Value == nil:
		return head + " is unknown."
	case r.Verdict == Unknown:
		return fmt.Sprintf("%s is %s, and it cannot be told on which side of %s it lies: %s.", head,
			quantity(*r.Value, r.Unit), quantity(r.Threshold, r.Unit), strings.Join(r.Warnings, "; "))
	}
	side := "above"
	if r.AtLeast {
		side = "below"
	}
	return fmt.Sprintf("%s is %s, %s its bound of %s.", head, quantity(*r.Value, r.Unit), side, quantity(r.Threshold, r.Unit))
}

// title names a result: "p99 of mutating calls (PATCH pods/status resource)".
func title(r Result) string {
	if strings.Contains(r.Name, r.Statistic) {
		return r.Name // a name made of all that it is about
	}
	head := r.Statistic + " of " + r.Name
	l := r.Labels
	resource := l["resource"]
	if l["subresource"] != "" {
		resource += "/" + l["subresource"]
	}
	var parts []string
	for _, s := range []string{l["source"], l["step"], l["verb"], resource, l["scope"], l["lifecycle"], l["group"], l["phase"]} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	if len(parts) == 0 {
		return head
	}
	return head + " (" + strings.Join(parts, " ") + ")"
}

func quantity(v float64, unit string) string {
	switch unit {
	case "seconds":
		return fmt.Sprintf("%.4g s", v)
	case "1/s":
		return fmt.Sprintf("%.4g/s", v)
	}
	return strings.TrimSpace(fmt.Sprintf("%.4g %s", v, unit))
}
