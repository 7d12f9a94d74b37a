package slo

import (
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// maxExamples is how many violations of a step are told one by one.
const maxExamples = 3

// judgeWrites judges what the answers to probe steps show. Without final lists and complete
// watches nothing is known to be whole.
func (c records) judgeWrites(r *Result, o *scenario.Objective) {
	var violations, unknown, samples int
	var incomplete []string
	for _, step := range slices.Sorted(maps.Keys(c.f.Accesses)) {
		if labelsFit(map[string]string{"step": step}, o.Labels) {
			one := consistency.Check(c.f.Accesses[step])
			violations += one.Count(consistency.Rule(o.Labels["rule"]))
			unknown += one.Unknown
			samples += one.Acknowledged + one.Unknown
			incomplete = append(incomplete, one.Incomplete...)
		}
	}
	switch {
	case r.Statistic != "count":
		unknownStatistic(r)
	case o.SLI == "unknown-writes":
		r.Unit = "writes"
		holdAgainstThreshold(r, exactEstimate(float64(unknown), float64(samples)), false)
	default:
		r.Unit = "violations"
		holdAgainstThreshold(r, exactEstimate(float64(violations), float64(samples)), false)
		if len(incomplete) > 0 && r.Verdict == Pass {
			setUnmeasured(r, incomplete[0])
		}
	}
}

// violatedProbes returns the probe steps whose answers show a violation, or of which not all
// could be checked: that is no pass, whatever the objectives are.
func (a demands) violatedProbes() (out []Unmet) {
	for _, step := range slices.Sorted(maps.Keys(a.f.Accesses)) {
		r := consistency.Check(a.f.Accesses[step])
		for i, v := range r.Violations {
			if i == maxExamples {
				break
			}
			why := fmt.Sprintf("%s, object %s: %s", v.Rule, v.Key, v.Why)
			if i == 0 && len(r.Violations) > 1 {
				why = fmt.Sprintf("%s; the first: %s", unit.Count(len(r.Violations), "violations"), why)
			}
			out = append(out, Unmet{"check of the writes of step " + step, record.Refuted, why})
		}
		if len(r.Incomplete) > 0 && a.f.Ended.Reason == record.Done {
			out = append(out, Unmet{"check of the writes of step " + step, record.NotMeasured, r.Incomplete[0]})
		}
	}
	return out
}
