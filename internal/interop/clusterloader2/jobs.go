package clusterloader2

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// jobsWithin is how long ClusterLoader2 waits for jobs by default.
const jobsWithin = 10 * time.Minute

// waitFinishedJobs waits until all jobs that the labels select are complete or failed.
func waitFinishedJobs(l *lowering, c call, _ int) []scenario.Step {
	if c.actionOf() != gather {
		return nil
	}
	w, ok := l.jobsWait(c)
	if !ok {
		return nil
	}
	w.Condition = `self.status.conditions.exists(c, (c.type == "Complete" || c.type == "Failed") && c.status == "True")`
	return waitStep(c.identifier, w)
}

// jobsWait is a wait for all jobs of a selector, without its condition: those
// that the config makes, and any that controllers made. It is false, with a
// fault, where the selector is none.
func (l *lowering) jobsWait(c call) (scenario.Wait, bool) {
	selector := c.readText("labelSelector", "")
	s, ok := selectorOf(selector)
	if !ok {
		c.addFault("labelSelector", "%q is not a label selector", selector)
		return scenario.Wait{}, false
	}
	now, _, _ := l.countControlled("Job", s, c.readText("namespace", ""))
	return scenario.Wait{
		Objects: "jobs.batch", Namespace: c.readText("namespace", ""), Selector: selector, Count: now, All: true,
		Within: unit.Duration(c.readDuration("timeout", jobsWithin)),
	}, true
}
