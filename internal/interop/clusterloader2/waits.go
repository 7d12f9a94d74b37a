package clusterloader2

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// waitStep is a step that waits. A wait that is not met fails the test, as it
// does in ClusterLoader2, which goes on with the next step all the same.
func waitStep(name string, w scenario.Wait) []scenario.Step {
	w.Unmet = "fail"
	return []scenario.Step{{Name: name, Wait: &w}}
}

// exactTimeout is the environment variable of ClusterLoader2 that gives a deletion
// no more time than a creation, whatever its value is.
const exactTimeout = "CL2_WAIT_FOR_CONTROLLED_PODS_USE_EXACT_OPERATION_TIMEOUT"

// unlimited is how long a wait without a limit takes at most.
const unlimited = 24 * time.Hour

// waitControlled waits until the pods of some controllers run, those of
// controllers that others made included, or, when a phase deleted the
// controllers, until their pods are gone.
func waitControlled(l *lowering, c call, _ int) []scenario.Step {
	if c.actionOf() != gather {
		return nil
	}
	apiVersion, kind := c.needText("apiVersion"), c.needText("kind")
	selector := c.readText("labelSelector", "")
	s, ok := selectorOf(selector)
	if !ok {
		c.addFault("labelSelector", "%q is not a label selector", selector)
		return nil
	}
	within := c.readDuration("operationTimeout", 10*time.Minute)
	if within == 0 {
		within = unlimited
		c.addNote("operationTimeout: 0s is no limit in ClusterLoader2; the wait ends after %s here", unlimited)
	}
	now, ever, pods := l.countControlled(kind, s, c.readText("namespace", ""))
	w := scenario.Wait{Objects: resourceOf(apiVersion, kind), Namespace: c.readText("namespace", ""), Selector: s.String(), Within: unit.Duration(within)}
	updated, margin := c.readTruth("checkIfPodsAreUpdated", true), c.readInt("countErrorMargin", 0)
	switch {
	case now > 0 && kind == "Pod":
		c.addNote("ClusterLoader2 counts the pods of controllers and fails with kind: Pod; here the pods themselves are to run")
		w.Condition, w.Count, w.All = `self.status.phase == "Running"`, max(0, now-margin), margin == 0
		return waitStep(c.identifier, w)
	case now > 0 && updated && !hasTemplates(ever, kind):
		c.addFault("kind", "objects of kind %s have no spec.template, so ClusterLoader2 cannot tell their pods and fails", kind)
		return nil
	case now > 0 || len(ever) == 0: // of those that controllers made there may be some in any case
		if !knownController(kind) {
			c.addNote("whether the pods of a %s run is read from its own status.readyReplicas", kind)
		}
		w.Condition, w.Count, w.All, w.Optional = podsRunCondition(kind, updated, margin), now, true, now == 0
		return waitStep(c.identifier, w)
	}
	w.Deleted, w.Optional = true, true
	if _, exact := l.options.Env.Lookup(exactTimeout); !exact {
		w.Within *= 2 // as ClusterLoader2 allows
	}
	steps := waitStep(c.identifier, w)
	if kind == "Pod" {
		return steps
	}
	return append(steps, l.podsGone(c, pods, w.Within)...)
}

// hasTemplates tells whether the objects of a kind that the cohorts made have a
// template of pods.
func hasTemplates(made []*cohort, kind string) bool {
	for _, c := range made {
		for _, i := range c.items {
			if i.kind == kind && !i.sample.template {
				return false
			}
		}
	}
	return true
}

// countControlled counts the objects of a kind that a selector finds, and says which
// cohorts ever had some, and what their pods' labels have in common.
func (l *lowering) countControlled(kind string, s labels.Selector, namespace string) (now int, ever []*cohort, pods map[string]string) {
	for _, c := range l.known {
		for _, i := range c.items {
			if i.kind != kind || !s.Matches(labels.Set(i.sample.labels)) || !c.scope.mayHold(namespace, l.out.Namespaces.Prefix) {
				continue
			}
			n := c.each * c.scope.countNamespaces()
			if namespace != "" {
				n = c.each
			}
			now += n
			ever = append(ever, c)
			pods = commonLabels(pods, i.sample.podLabels, i.object.Basename)
		}
	}
	return now, ever, pods
}

// commonLabels returns the labels that all pods have; those made from a name have not.
func commonLabels(sofar, with map[string]string, basename string) map[string]string {
	out := map[string]string{}
	for k, v := range with {
		if (sofar == nil || sofar[k] == v) && !strings.Contains(v, basename+"-0") {
			out[k] = v
		}
	}
	return out
}

// podsGone waits until pods with these labels are gone, but for those that
// others with the same labels have.
func (l *lowering) podsGone(c call, with map[string]string, within unit.Duration) []scenario.Step {
	if len(with) == 0 {
		c.noteDifference("the pods of what is deleted have no label in common: only the controllers are waited for")
		return nil
	}
	selected := labels.SelectorFromSet(with)
	w := scenario.Wait{Objects: "pods", Selector: selected.String(), Deleted: true, Optional: true, Within: within}
	for _, g := range l.out.Groups {
		if s, ok := selectorOf(g.Selector); ok && g.Namespace == "" && s.Matches(labels.Set(with)) && g.Selector != anyPod {
			w = scenario.Wait{Pods: g.Name, Are: "deleted", Optional: true, Within: within}
			selected = s
			break
		}
	}
	remain, known := l.countRemaining(selected)
	if !known {
		c.noteDifference("other pods with the labels %s stay, nobody knows how many: only the controllers are waited for", selected)
		return nil
	}
	w.Count = remain
	return waitStep(c.identifier+"-pods", w)
}

// countRemaining counts the pods with some labels that there are still to be; false
// when their number is drawn at random.
func (l *lowering) countRemaining(s labels.Selector) (n int, known bool) {
	for _, c := range l.known {
		for _, i := range c.items {
			if c.each == 0 || !s.Matches(labels.Set(i.sample.podLabels)) {
				continue
			}
			if i.sample.random {
				return 0, false
			}
			n += c.each * c.scope.countNamespaces() * i.sample.pods
			if i.sample.everyNode {
				n += c.each * c.scope.countNamespaces() * l.options.Nodes
			}
		}
	}
	return n, true
}

// knownController tells whether the fields of a kind's status are known.
func knownController(kind string) bool {
	switch kind {
	case "Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "DaemonSet", "Job":
		return true
	}
	return false
}

// podsRunCondition is the condition that all pods of a controller run: of its newest
// spec, and all but margin of them. Fields of a status that are 0 are not there.
func podsRunCondition(kind string, updated bool, margin int) string {
	count := func(field string) string { return fmt.Sprintf("(has(self.status.%s) ? self.status.%[1]s : 0)", field) }
	want := "self.spec.replicas"
	seen := "self.status.observedGeneration >= self.metadata.generation"
	fields := []string{"readyReplicas"}
	switch kind {
	case "Deployment":
		fields = append(fields, "replicas")
		if updated {
			fields = append(fields, "updatedReplicas")
		}
	case "StatefulSet":
		if updated {
			fields = append(fields, "updatedReplicas")
		}
	case "DaemonSet":
		want, fields = "self.status.desiredNumberScheduled", []string{"numberReady"}
		if updated {
			fields = append(fields, "updatedNumberScheduled")
		}
	case "Job":
		return jobRunning(margin)
	case "ReplicaSet", "ReplicationController":
	default:
		seen, want = "", "(has(self.spec.replicas) ? self.spec.replicas : 0)"
	}
	parts := []string{}
	if seen != "" {
		parts = append(parts, seen)
	}
	for _, f := range fields {
		switch {
		case margin > 0 && f != "replicas":
			parts = append(parts, fmt.Sprintf("%s >= %s - %d", count(f), want, margin))
		case margin == 0:
			parts = append(parts, count(f)+" == "+want)
		}
	}
	return strings.Join(parts, " && ")
}

// jobRunning holds when a job's pods run, or are done: the pods of the fleet
// end as soon as those of a job may.
func jobRunning(margin int) string {
	ready := "has(self.status.ready) && self.status.ready >= self.spec.parallelism"
	if margin > 0 {
		ready += fmt.Sprintf(" - %d", margin)
	}
	return ready + " || " + hasCondition("Complete", "True")
}

func hasCondition(kind, status string) string {
	return fmt.Sprintf("self.status.conditions.exists(c, c.type == %q && c.status == %q)", kind, status)
}

// podsOfJobs tells whether a selector finds pods of Jobs.
func (l *lowering) podsOfJobs(s labels.Selector, namespace string) bool {
	for _, c := range l.known {
		for _, i := range c.items {
			if i.kind == "Job" && s.Matches(labels.Set(i.sample.podLabels)) && c.scope.mayHold(namespace, l.out.Namespaces.Prefix) {
				return true
			}
		}
	}
	return false
}

// hadMorePods tells whether there may have been more pods of a selector than a
// wait wants: then it has to wait for some to go. Pods of Jobs stay when they
// are done, and ClusterLoader2 does not count them.
func (l *lowering) hadMorePods(s labels.Selector, namespace string, count int) bool {
	had := 0
	for _, c := range l.known {
		for _, i := range c.items {
			if !s.Matches(labels.Set(i.sample.podLabels)) || !c.scope.mayHold(namespace, l.out.Namespaces.Prefix) || i.kind == "Job" {
				continue
			}
			if i.sample.random {
				return true
			}
			spaces, pods := c.scope.countNamespaces(), i.sample.pods
			if namespace != "" {
				spaces = 1
			}
			if i.sample.everyNode {
				pods = l.options.Nodes
			}
			had += c.peak * spaces * pods
		}
	}
	return had > count
}
