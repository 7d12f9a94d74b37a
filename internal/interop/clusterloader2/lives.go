package clusterloader2

import (
	"cmp"
	"time"

	"github.com/windtunnel/windtunnel/scenario"
)

// live declares a life for a measurement and returns its name; empty where the
// measurement selects objects in a way that lives cannot.
func (l *lowering) live(c call, use string) string {
	if c.has("fieldSelector") {
		c.note("objects can be selected by labels only, not by fieldSelector")
		return ""
	}
	selector := c.text("labelSelector", "")
	if _, ok := selectorOf(selector); !ok {
		c.fault("labelSelector", "%q is not a label selector", selector)
		return ""
	}
	life := scenario.Lifecycle{Name: cmp.Or(slug(c.identifier), use), Use: use, Namespace: c.text("namespace", ""), Selector: selector}
	for _, have := range l.out.Lifecycles {
		switch {
		case have.Name == life.Name && have.Use == use:
			return life.Name
		case have.Name == life.Name:
			life.Name += "-" + use
		}
	}
	l.out.Lifecycles = append(l.out.Lifecycles, life)
	return life.Name
}

// jobLifecycle records the lives of Jobs. ClusterLoader2 takes create_to_start
// and start_to_complete from timestamps of whole seconds; here they are by
// receipt, and in every verdict, which sums up each life by its phases.
func jobLifecycle(l *lowering, c call, _ int) []scenario.Step {
	if l.live(c, "job") == "" && c.ends() {
		l.unsupported(c.identifier, "jobs can be selected by labels only")
	}
	return nil
}

// claimTime is ClusterLoader2's bound on how long a claim may wait.
const claimTime = 5 * time.Minute

// claimAllocation bounds the time from the creation of resource claims to their
// allocation.
func claimAllocation(l *lowering, c call, _ int) []scenario.Step {
	life := l.live(c, "resourceclaim")
	if !c.ends() {
		return nil
	}
	if life == "" {
		l.unsupported(c.identifier, "resource claims can be selected by labels only")
		return nil
	}
	c.note("pod_create_to_claim_create is left out: it is the controller's part, which the lifecycles of claims do not show")
	l.objective(scenario.Objective{
		Name: c.identifier, SLI: "lifecycle", Labels: map[string]string{"lifecycle": life, "phase": "created..allocated"},
		Statistic: "p99", Max: bound(c.duration("threshold", claimTime).Seconds()),
	}, 0)
	return nil
}
