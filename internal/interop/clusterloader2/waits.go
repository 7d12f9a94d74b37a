package clusterloader2

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// waiting is a step that waits.
func waiting(name string, w scenario.Wait) []scenario.Step {
	return []scenario.Step{{Name: name, Wait: &w}}
}

// waitControlled waits until the pods of some controllers run, or, when a
// phase deleted the controllers, until their pods are gone.
func waitControlled(l *lowering, c call, _ int) []scenario.Step {
	if !c.ends() {
		return nil
	}
	apiVersion, kind := c.needText("apiVersion"), c.needText("kind")
	selector := c.text("labelSelector", "")
	s, ok := selectorOf(selector)
	if !ok {
		c.fault("labelSelector", "%q is not a label selector", selector)
		return nil
	}
	if c.has("fieldSelector") {
		c.note("fieldSelector is left out: all that the labels select is waited for")
	}
	within := c.duration("operationTimeout", 10*time.Minute)
	now, ever, pods := l.controlled(kind, s, c.text("namespace", ""))
	if len(ever) == 0 {
		return nil // ClusterLoader2 goes on at once
	}
	resource := resourceOf(apiVersion, kind)
	w := scenario.Wait{Objects: resource, Namespace: c.text("namespace", ""), Selector: s.String(), Within: unit.Duration(within)}
	if now > 0 {
		if !knownController(kind) {
			c.note("whether the pods of a %s run is read from its own status.readyReplicas", kind)
		}
		w.Condition, w.Count, w.All = running(kind, c.truth("checkIfPodsAreUpdated", true), c.whole("countErrorMargin", 0)), now, true
		return waiting(c.identifier, w)
	}
	w.Deleted, w.Within = true, unit.Duration(2*within) // twice as long, as ClusterLoader2 allows
	steps := waiting(c.identifier, w)
	return append(steps, l.podsGone(c, pods, w.Within)...)
}

// controlled counts the objects of a kind that a selector finds, and says which
// cohorts ever had some, and what their pods' labels have in common.
func (l *lowering) controlled(kind string, s labels.Selector, namespace string) (now int, ever []*cohort, pods map[string]string) {
	for _, c := range l.known {
		for _, i := range c.items {
			if i.kind != kind || !s.Matches(labels.Set(i.sample.labels)) || !c.scope.holds(namespace, l.out.Namespaces.Prefix) {
				continue
			}
			n := c.each * c.scope.namespaces()
			if namespace != "" {
				n = c.each
			}
			now += n
			ever = append(ever, c)
			pods = common(pods, i.sample.podLabels, i.object.Basename)
		}
	}
	return now, ever, pods
}

// common are the labels that all pods have; those made from a name have not.
func common(sofar, with map[string]string, basename string) map[string]string {
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
		c.note("the pods of what is deleted have no label in common: only the controllers are waited for")
		return nil
	}
	selected := labels.SelectorFromSet(with)
	w := scenario.Wait{Objects: "pods", Selector: selected.String(), Deleted: true, Within: within}
	for _, g := range l.out.Groups {
		if s, ok := selectorOf(g.Selector); ok && g.Namespace == "" && s.Matches(labels.Set(with)) && g.Selector != anyPod {
			w = scenario.Wait{Pods: g.Name, Are: "deleted", Within: within}
			selected = s
			break
		}
	}
	remain, known := l.remaining(selected)
	if !known {
		c.note("other pods with the labels %s stay, nobody knows how many: only the controllers are waited for", selected)
		return nil
	}
	w.Count = remain
	return waiting(c.identifier+"-pods", w)
}

// remaining counts the pods with some labels that there are still to be; false
// when their number is drawn at random.
func (l *lowering) remaining(s labels.Selector) (n int, known bool) {
	for _, c := range l.known {
		for _, i := range c.items {
			if c.each == 0 || !s.Matches(labels.Set(i.sample.podLabels)) {
				continue
			}
			if i.sample.random {
				return 0, false
			}
			n += c.each * c.scope.namespaces() * i.sample.pods
			if i.sample.everyNode {
				n += c.each * c.scope.namespaces() * l.options.Nodes
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

// running is the condition that all pods of a controller run: of its newest
// spec, and all but margin of them. Fields of a status that are 0 are not there.
func running(kind string, updated bool, margin int) string {
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
		seen = ""
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

func waitRunningPods(l *lowering, c call, _ int) []scenario.Step {
	if c.action() == "start" {
		return nil
	}
	if !c.has("desiredPodCount") {
		c.im.faults.at(c.where, "%s: desiredPodCount is needed", c.method)
		return nil
	}
	count, selector, namespace := c.whole("desiredPodCount", 0), c.text("labelSelector", ""), c.text("namespace", "")
	within := unit.Duration(c.duration("timeout", time.Minute))
	if c.has("fieldSelector") {
		c.note("fieldSelector is left out: all that the labels select is waited for")
	}
	w := scenario.Wait{Objects: "pods", Namespace: namespace, Selector: selector, Count: count, Within: within, Condition: `self.status.phase == "Running"`}
	if g := l.groupFor(selector, namespace); g != "" {
		w = scenario.Wait{Pods: g, Are: "running", Count: count, Within: within}
	}
	if count == 0 {
		w = scenario.Wait{Objects: "pods", Namespace: namespace, Selector: selector, Deleted: true, Within: within}
	}
	steps := waiting(c.identifier, w)
	if c.truth("isFatal", false) {
		steps[0].OnFailure = "stop"
	}
	return steps
}

// waitGeneric waits until enough objects of any resource have one of some conditions.
func waitGeneric(l *lowering, c call, _ int) []scenario.Step {
	if c.action() == "start" {
		return nil
	}
	var conditions []string
	for _, text := range c.texts("successfulConditions") {
		kind, status, ok := strings.Cut(text, "=")
		if !ok {
			c.fault("successfulConditions", "%q is not Type=Status", text)
			return nil
		}
		conditions = append(conditions, hasCondition(kind, status))
	}
	if len(conditions) == 0 {
		c.im.faults.at(c.where, "%s: successfulConditions is needed", c.method)
		return nil
	}
	if len(c.texts("failedConditions")) > 0 {
		c.note("failedConditions and maxFailedObjectCount do not end the wait early: objects that failed are waited for until the timeout")
	}
	resource := joinDots(c.needText("objectResource"), c.text("objectVersion", ""), c.text("objectGroup", ""))
	w := scenario.Wait{
		Objects: resource, Namespace: l.objectNamespace(c), Selector: c.text("labelSelector", ""),
		Condition: strings.Join(conditions, " || "), Count: c.whole("minDesiredObjectCount", 0),
		Within: unit.Duration(c.duration("timeout", 30*time.Minute)),
	}
	if w.Count <= 0 {
		c.note("minDesiredObjectCount is 0: there is nothing to wait for")
		return nil
	}
	return waiting(c.identifier, w)
}

// objectNamespace is where WaitForGenericK8sObjects looks.
func (l *lowering) objectNamespace(c call) string {
	r, ok := c.params.values["namespaceRange"].(map[string]any)
	if !ok {
		return ""
	}
	inner := c
	inner.params = params{values: r, Place: c.params.Place}
	prefix, from, to := inner.text("prefix", ""), inner.whole("min", 0), inner.whole("max", 0)
	switch {
	case inner.truth("allNamespaces", false):
		return "*"
	case from == to && prefix != "":
		return fmt.Sprintf("%s-%d", prefix, from)
	case prefix == "" || prefix == l.out.Namespaces.Prefix:
		return ""
	}
	c.note("namespaceRange: objects of all namespaces are looked at")
	return "*"
}

func waitFinishedJobs(l *lowering, c call, _ int) []scenario.Step {
	if !c.ends() {
		return nil
	}
	selector := c.text("labelSelector", "")
	s, ok := selectorOf(selector)
	if !ok {
		c.fault("labelSelector", "%q is not a label selector", selector)
		return nil
	}
	now, _, _ := l.controlled("Job", s, c.text("namespace", ""))
	if now == 0 {
		return nil // ClusterLoader2 goes on at once
	}
	return waiting(c.identifier, scenario.Wait{
		Objects: "jobs.batch", Namespace: c.text("namespace", ""), Selector: selector, Count: now, All: true,
		Condition: `self.status.conditions.exists(c, (c.type == "Complete" || c.type == "Failed") && c.status == "True")`,
		Within:    unit.Duration(c.duration("timeout", 10*time.Minute)),
	})
}

func waitNodes(_ *lowering, c call, _ int) []scenario.Step {
	if c.action() == "start" {
		return nil
	}
	least := c.whole("minDesiredNodeCount", 0)
	if least <= 0 {
		c.note("minDesiredNodeCount is 0: there is nothing to wait for")
		return nil
	}
	return waiting(c.identifier, scenario.Wait{
		Objects: "nodes", Namespace: "*", Selector: c.text("labelSelector", ""), Count: least,
		Condition: hasCondition("Ready", "True"), Within: unit.Duration(c.duration("timeout", 10*time.Minute)),
	})
}

// waitPhase waits until so many objects of a resource are in a phase.
func waitPhase(resource, phase, count string) func(*lowering, call, int) []scenario.Step {
	return func(_ *lowering, c call, _ int) []scenario.Step {
		if c.action() == "start" {
			return nil
		}
		w := scenario.Wait{
			Objects: resource, Selector: c.text("labelSelector", ""), Count: c.whole(count, 0),
			Condition: "{.status.phase}=" + phase, Within: unit.Duration(c.duration("timeout", 10*time.Minute)),
		}
		if resource == "persistentvolumes" {
			w.Namespace = "*"
			if c.has("provisioner") {
				c.note("provisioner is left out: all volumes that the labels select are counted")
			}
		} else {
			w.Namespace = c.text("namespace", "")
		}
		if w.Count == 0 {
			w.Condition, w.Deleted = "", true
		}
		return waiting(c.identifier, w)
	}
}
