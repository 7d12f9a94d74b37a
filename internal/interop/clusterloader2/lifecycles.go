package clusterloader2

import (
	"cmp"
	"time"

	"github.com/windtunnel/windtunnel/scenario"
)

// declareLifecycle declares one for a measurement and returns its name; empty where the
// measurement selects objects in a way that lifecycles cannot.
func (l *lowering) declareLifecycle(c call, use string) string {
	if c.has("fieldSelector") {
		return ""
	}
	selector := c.readText("labelSelector", "")
	if _, ok := selectorOf(selector); !ok {
		c.addFault("labelSelector", "%q is not a label selector", selector)
		return ""
	}
	one := scenario.Lifecycle{Name: cmp.Or(dnsLabel(c.identifier), use), Use: use, Namespace: c.readText("namespace", ""), Selector: selector}
	for _, have := range l.out.Lifecycles {
		switch {
		case have.Name == one.Name && have.Use == use:
			return one.Name
		case have.Name == one.Name:
			one.Name += "-" + use
		}
	}
	l.out.Lifecycles = append(l.out.Lifecycles, one)
	return one.Name
}

// jobLifecycle records the lifecycles of Jobs. ClusterLoader2 takes create_to_start
// and start_to_complete from timestamps of whole seconds; here they are by
// receipt, and in every verdict, which sums up each lifecycle by its phases. When
// they are gathered, ClusterLoader2 waits for the jobs to complete; jobs that do
// not complete in time fail nothing there, and leave the verdict unknown here.
func jobLifecycle(l *lowering, c call, _ int) []scenario.Step {
	one := l.declareLifecycle(c, "job")
	if c.actionOf() != gather {
		return nil
	}
	if one == "" {
		l.addUnsupported(c.identifier, "jobs can be selected by labels only")
		return nil
	}
	w, ok := l.jobsWait(c)
	if !ok {
		return nil
	}
	w.Condition = hasCondition("Complete", "True")
	steps := waitStep(c.identifier, w)
	steps[0].Wait.Unmet = scenario.UnknownRun
	return steps
}

// claimTime is ClusterLoader2's bound on how long a claim may wait.
const claimTime = 5 * time.Minute

// claimAllocation bounds the time from the creation of resource claims to their
// allocation.
func claimAllocation(l *lowering, c call, _ int) []scenario.Step {
	one := l.declareLifecycle(c, "resourceclaim")
	if c.actionOf() != gather {
		return nil
	}
	if one == "" {
		l.addUnsupported(c.identifier, "resource claims can be selected by labels only")
		return nil
	}
	c.addNote("pod_create_to_claim_create is left out: it is the controller's part, which the lifecycles of claims do not show")
	for _, b := range c.percentileBounds(claimTime) {
		l.addObjective(scenario.Objective{
			Name: c.identifier, SLI: "lifecycle", Labels: map[string]string{"lifecycle": one, "phase": "created..allocated"},
			Statistic: b.statistic, Max: new(b.max.Seconds()),
		}, 0)
	}
	return nil
}
