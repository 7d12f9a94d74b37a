package slo

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// unmetWait is what the objective counts that a wait has which says unmet: fail.
const unmetWait = "unmet-waits"

// waitObjectives returns the objectives of the steps that fail a run when they are not met.
func waitObjectives(sc *scenario.Scenario) (out []scenario.Objective) {
	none := 0.0
	for s := range sc.AllSteps() {
		if holdsWait(s) {
			out = append(out, scenario.Objective{Name: "wait not met", SLI: unmetWait, Statistic: "count", Labels: map[string]string{"step": s.Name}, Max: &none})
		}
	}
	return out
}

// holdsWait reports whether a step has an objective of its own for what it waits for.
func holdsWait(s *scenario.Step) bool {
	return s.Wait != nil && s.Wait.Unmet == scenario.FailRun ||
		s.Churn != nil && slices.ContainsFunc(s.Churn.Wait, func(w scenario.Wait) bool { return w.Unmet == scenario.FailRun })
}

// isUnmetWait reports whether a step with such an objective ended because of a wait. A churn may
// also end because of what it does before it waits; its records say which it was.
func isUnmetWait(s *scenario.Step, ended run.Step) bool {
	return ended.Note != "" && (s.Wait != nil || ended.State == record.Refuted)
}

// abortedRun is what the objective counts that a scenario with abortOn has.
const abortedRun = "aborted"

// abortObjectives is the objective of a scenario that says when it is ended early.
func abortObjectives(sc *scenario.Scenario) []scenario.Objective {
	if sc.AbortOn == nil {
		return nil
	}
	none := 0.0
	return []scenario.Objective{{Name: "ended early by abortOn", SLI: abortedRun, Statistic: "count", Max: &none}}
}

// judgeAborted holds that the run was not ended early.
func (c records) judgeAborted(r *Result) {
	r.Unit = "times"
	times := 0
	if c.f.Ended.Reason == record.Aborted {
		times = 1
		r.Warnings = append(r.Warnings, c.f.Ended.Text)
	}
	holdAgainstThreshold(r, exactEstimate(float64(times), 1), false)
	r.certain = times > 0
}

// judgeWait holds how often a step that waits did not get what it waited for. One that
// the run did not come to, or ended in, says nothing.
func (c records) judgeWait(r *Result, step string) {
	r.Unit = "waits"
	unmet, done := 0, 0
	var of *scenario.Step
	for s := range c.sc.AllSteps() {
		if s.Name == step {
			of = s
		}
	}
	for _, s := range c.f.Steps {
		if s.Name != step || !s.Ended {
			continue
		}
		switch {
		case isUnmetWait(of, s):
			unmet++
			r.Warnings = append(r.Warnings, s.Note)
		case s.Note != "":
			continue // it did not come to its waits
		}
		done++
	}
	if done == 0 {
		setUnmeasured(r, fmt.Sprintf("the run did not come to the end of step %s", step))
		return
	}
	holdAgainstThreshold(r, exactEstimate(float64(unmet), float64(done)), false)
}
