package clusterloader2

import (
	"cmp"
	"time"

	"github.com/windtunnel/windtunnel/scenario"
)

// lifecycle declares one for a measurement and returns its name; empty where the
// measurement selects objects in a way that lifecycles cannot.
func (l *lowering) lifecycle(c call, use string) string {
	if c.has("fieldSelector") {
		c.note("objects can be selected by labels only, not by fieldSelector")
		return ""
	}
	selector := c.text("labelSelector", "")
	if _, ok := selectorOf(selector); !ok {
		c.fault("labelSelector", "%q is not a label selector", selector)
		return ""
	}
	one := scenario.Lifecycle{Name: cmp.Or(slug(c.identifier), use), Use: use, Namespace: c.text("namespace", ""), Selector: selector}
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
// receipt, and in every verdict, which sums up each lifecycle by its phases.
func jobLifecycle(l *lowering, c call, _ int) []scenario.Step {
	if l.lifecycle(c, "job") == "" && c.ends() {
		l.unsupported(c.identifier, "jobs can be selected by labels only")
	}
	return nil
}

// claimTime is ClusterLoader2's bound on how long a claim may wait.
const claimTime = 5 * time.Minute

// claimAllocation bounds the time from the creation of resource claims to their
// allocation.
func claimAllocation(l *lowering, c call, _ int) []scenario.Step {
	one := l.lifecycle(c, "resourceclaim")
	if !c.ends() {
		return nil
	}
	if one == "" {
		l.unsupported(c.identifier, "resource claims can be selected by labels only")
		return nil
	}
	c.note("pod_create_to_claim_create is left out: it is the controller's part, which the lifecycles of claims do not show")
	l.objective(scenario.Objective{
		Name: c.identifier, SLI: "lifecycle", Labels: map[string]string{"lifecycle": one, "phase": "created..allocated"},
		Statistic: "p99", Max: bound(c.duration("threshold", claimTime).Seconds()),
	}, 0)
	return nil
}
