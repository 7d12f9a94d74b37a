package clusterloader2

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// The measurements of this file wait where they stand: ClusterLoader2 does not
// look at an action.

// waitRunningPods waits until the selected pods that run are as many as wanted,
// no fewer and, where there were more of them, no more.
func waitRunningPods(l *lowering, c call, _ int) []scenario.Step {
	count, ok := c.readCount("desiredPodCount")
	if !ok {
		return nil
	}
	selector, namespace := c.readText("labelSelector", ""), c.readText("namespace", "")
	within := unit.Duration(c.readDuration("timeout", time.Minute))
	s, ok := selectorOf(selector)
	if !ok {
		c.addFault("labelSelector", "%q is not a label selector", selector)
		return nil
	}
	var steps []scenario.Step
	if count > 0 {
		w := scenario.Wait{Objects: "pods", Namespace: namespace, Selector: selector, Count: count, Within: within, Condition: `self.status.phase == "Running"`}
		if l.podsOfJobs(s, namespace) {
			w.Condition = `self.status.phase in ["Running", "Succeeded"]` // the fleet's pods of a Job end at once
		} else if g := l.groupFor(selector, namespace); g != "" {
			w = scenario.Wait{Pods: g, Are: "running", Count: count, Within: within}
		}
		steps = waitStep(c.identifier, w)
	}
	if count == 0 || l.hadMorePods(s, namespace, count) {
		wait := scenario.Wait{Objects: "pods", Namespace: namespace, Selector: selector, Deleted: true, Optional: true, Count: count, Within: within}
		steps = append(steps, waitStep(c.identifier, wait)...)
	}
	if c.readTruth("isFatal", false) {
		for i := range steps {
			steps[i].OnFailure = "stop"
		}
	}
	return steps
}

// waitGeneric waits until enough objects of any resource have one of some conditions.
func waitGeneric(l *lowering, c call, _ int) []scenario.Step {
	good, ok := c.readConditions("successfulConditions")
	bad, known := c.readConditions("failedConditions")
	if !ok || !known {
		return nil
	}
	if len(good) == 0 {
		c.im.faults.addAt(c.where, "%s: successfulConditions is needed", c.method)
		return nil
	}
	switch highest := c.readInt("maxFailedObjectCount", 0); {
	case len(bad) == 0:
	case highest > 0:
		good = append(good, bad...)
		c.noteDifference("maxFailedObjectCount: objects with failedConditions count as done; more than %d of them are no error", highest)
	default:
		c.addNote("failedConditions do not end the wait early: it waits for enough objects with successfulConditions")
	}
	resource := joinDots(c.needText("objectResource"), c.readText("objectVersion", ""), c.readText("objectGroup", ""))
	w := scenario.Wait{
		Objects: resource, Namespace: l.objectNamespace(c), Selector: c.readText("labelSelector", ""),
		Condition: strings.Join(good, " || "), Count: c.readInt("minDesiredObjectCount", 0),
		Within: unit.Duration(c.readDuration("timeout", 30*time.Minute)),
	}
	if w.Count <= 0 {
		c.addNote("minDesiredObjectCount is 0: there is nothing to wait for")
		return nil
	}
	return waitStep(c.identifier, w)
}

// readConditions returns Type=Status pairs as conditions over an object; false, with a
// fault, where one is of another form.
func (c call) readConditions(name string) ([]string, bool) {
	var out []string
	for _, text := range c.readTexts(name) {
		kind, status, ok := strings.Cut(text, "=")
		if !ok {
			c.addFault(name, "%q is not Type=Status", text)
			return nil, false
		}
		out = append(out, hasCondition(kind, status))
	}
	return out, true
}

// objectNamespace is where WaitForGenericK8sObjects looks.
func (l *lowering) objectNamespace(c call) string {
	r, ok := c.params.Values["namespaceRange"].(map[string]any)
	if !ok {
		return ""
	}
	inner := c
	inner.params = config.Params{Values: r, Place: c.params.Place}
	prefix, from, to := inner.readText("prefix", l.out.Namespaces.Prefix), inner.readInt("min", 0), inner.readInt("max", 0)
	switch {
	case inner.readTruth("allNamespaces", false):
		return "*"
	case from == to:
		return fmt.Sprintf("%s-%d", prefix, from)
	case prefix != l.out.Namespaces.Prefix:
		c.noteDifference("namespaceRange: objects of all namespaces are looked at")
		return "*"
	case from > 1 || to < l.out.Namespaces.Count:
		c.noteDifference("namespaceRange: objects of all of the scenario's namespaces are looked at, not only those of %d to %d", from, to)
	}
	return ""
}

// nodesWithin is how long ClusterLoader2 waits for nodes by default.
const nodesWithin = 30 * time.Minute

// waitNodes waits for schedulable nodes. More of them than maxDesiredNodeCount
// do not go away, so that such a wait cannot end.
func waitNodes(l *lowering, c call, _ int) []scenario.Step {
	for _, name := range []string{"minDesiredNodeCount", "maxDesiredNodeCount"} {
		if !c.has(name) {
			c.im.faults.addAt(c.where, "%s: %s is needed", c.method, name)
			return nil
		}
	}
	minNodes, maxNodes, selector := c.readInt("minDesiredNodeCount", 0), c.readInt("maxDesiredNodeCount", 0), c.readText("labelSelector", "")
	within := c.readDuration("timeout", nodesWithin)
	if maxNodes < l.options.Nodes && selector == "" || maxNodes < minNodes {
		c.addFault("maxDesiredNodeCount", "%d is too few: the run has %s, or wants them, so the wait cannot end", maxNodes, unit.Count(max(minNodes, l.options.Nodes), "nodes"))
		return nil
	}
	if maxNodes < l.options.Nodes {
		c.noteDifference("maxDesiredNodeCount: more than %d nodes with these labels do not keep the wait from ending", maxNodes)
	}
	if minNodes <= 0 {
		c.addNote("minDesiredNodeCount is 0: there is nothing to wait for")
		return nil
	}
	return waitStep(c.identifier, scenario.Wait{
		Objects: "nodes", Namespace: "*", Selector: selector, Count: minNodes,
		Condition: hasCondition("Ready", "True"), Within: unit.Duration(within),
	})
}

// waitPhase waits until so many volumes are available or bound, or so many
// claims are bound.
func waitPhase(resource, count string) func(*lowering, call, int) []scenario.Step {
	return func(_ *lowering, c call, _ int) []scenario.Step {
		n, ok := c.readCount(count)
		if !ok {
			return nil
		}
		w := scenario.Wait{
			Objects: resource, Selector: c.readText("labelSelector", ""), Count: n,
			Namespace: c.readText("namespace", ""), Condition: "{.status.phase}=Bound", Within: unit.Duration(c.readDuration("timeout", time.Minute)),
		}
		if resource == "persistentvolumes" {
			w.Namespace, w.Condition = "*", `self.status.phase in ["Available", "Bound"]`
		}
		if w.Count == 0 {
			w.Condition, w.Deleted, w.Optional = "", true, true
		}
		return waitStep(c.identifier, w)
	}
}
