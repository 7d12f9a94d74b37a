package kubeburner

import (
	"strconv"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/jq"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// waitCondition returns what an item's objects are waited for to be, in CEL; not ok
// when kube-burner would not wait for them.
func (it item) waitCondition() (string, bool) {
	w := it.object.WaitOptions
	switch {
	case len(w.CustomStatusPaths) > 0:
		return "", true
	case w.ForCondition != "":
		return conditionIs(w.ForCondition), true
	}
	replicas := it.sample.Spec.Replicas
	return builtIn(byDefault(w.Kind, it.kind), w.Kind == "" && replicas != nil && *replicas == 0)
}

// builtIn is the waiter of a kind, in CEL. A field that is not there yet makes
// it no; where none of an object's pods are wanted, that field never comes.
func builtIn(kind string, none bool) (string, bool) {
	switch kind {
	case "Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "VirtualMachineInstanceReplicaSet":
		if none {
			return "self.spec.replicas == 0", true
		}
		return "self.status.readyReplicas == self.spec.replicas", true
	case "DaemonSet":
		return "self.status.observedGeneration == self.metadata.generation && self.status.numberReady == self.status.desiredNumberScheduled", true
	case "Pod":
		return `self.status.phase == "Running" && ` + conditionIs("Ready"), true
	case "Job":
		return conditionIs("Complete"), true
	case "PersistentVolumeClaim":
		return `self.status.phase == "Bound"`, true
	case "VolumeSnapshot":
		return "self.status.readyToUse == true", true
	case "Build", "BuildConfig":
		return `self.status.phase != "" && !(self.status.phase in ["New", "Pending", "Running"])`, true
	case "VirtualMachine", "VirtualMachineInstance", "DataVolume", "DataSource":
		return conditionIs("Ready"), true
	}
	return "", false
}

// conditionIs is a status condition that is True, in CEL.
func conditionIs(name string) string {
	return "self.status.conditions.exists(c, c.type == " + strconv.Quote(name) + ` && c.status == "True")`
}

// listWaits returns what is to hold before a job goes on: for each item that can be
// waited for, so many objects as it says. iteration narrows them to those of
// one; empty for all.
func (c *creation) listWaits(items []item, iteration string) []scenario.Wait {
	var out []scenario.Wait
	for _, it := range items {
		text, ok := it.waitCondition()
		if !ok || !it.object.Wait {
			continue
		}
		w := scenario.Wait{Objects: it.resource, Namespace: "*", Condition: text, Within: unit.Duration(c.waitLimit())}
		own := map[string]string{labelJob: c.j.Name, labelRun: c.run, labelIndex: strconv.Itoa(it.index)}
		if iteration != "" {
			own["kube-burner.io/job-iteration"] = iteration
		}
		w.Selector, w.Count = selectorText(own), it.countObjects(c.iterations)
		if !c.waitOptions(&w, it) {
			continue
		}
		out = append(out, w)
	}
	return out
}

// waitOptions makes of a wait what an object's waitOptions say.
func (im *importer) waitOptions(w *scenario.Wait, it item) bool {
	o := it.object.WaitOptions
	if o.Kind != "" && o.Kind != it.kind { // children, whose number nobody knows
		w.Objects, _ = im.resourceOf(byDefault(o.APIVersion, apiVersionOf(o.Kind)), o.Kind)
		w.Selector, w.Count, w.All = selectorText(o.LabelSelector), 1, true
	} else if len(o.LabelSelector) > 0 {
		w.Selector, w.Count, w.All = selectorText(o.LabelSelector), 1, true
	}
	if len(o.CustomStatusPaths) == 0 {
		return true
	}
	text, err := statusPaths(o.CustomStatusPaths)
	if err != nil {
		im.addUnsupported(im.lineAt(o.CustomStatusPaths[0].At), "waitOptions.customStatusPaths", "wait for "+it.body, err.Error()+": these objects are not waited for")
		return false
	}
	w.Condition = text
	return true
}

// readySteps returns the steps that wait for items.
func (c *creation) readySteps(items []item, iteration string) []scenario.Step {
	var out []scenario.Step
	for _, w := range c.listWaits(items, iteration) {
		name := c.name + "-ready"
		if iteration != "" {
			name = c.name + "-" + iteration + "-ready"
		}
		out = append(out, scenario.Step{Name: c.uniqueStep(name, dnsLabel(w.Objects)), Wait: &w})
	}
	return out
}

// selection is all objects of a resource that have labels.
type selection struct {
	resource string
	labels   map[string]string
}

// removeIfAny is remove of what need not be there.
func (s jobSteps) removeIfAny(name string, of selection) []scenario.Step {
	out := s.removeSelection(name, of, true)
	out[0].Requests.Mix[0].Optional = true
	return out
}

// removeSelection deletes a selection, and waits until it is gone.
func (s jobSteps) removeSelection(name string, of selection, wait bool) []scenario.Step {
	pace := s.j.rateOf()
	if d := s.j.JobIterationDelay; d > 0 && s.j.JobType == "delete" {
		pace = min(pace, 1/d.Seconds())
	}
	out := []scenario.Step{{Name: s.uniqueStep(name), Requests: &scenario.Requests{
		Rounds: 1, Pace: scenario.Pace{Constant: pace}, Timeout: unit.Duration(s.cfg.Global.RequestTimeout),
		Mix: []scenario.Call{{Verb: "delete", Resource: of.resource, Namespace: "*", Selector: selectorText(of.labels)}},
	}}}
	if wait {
		out = append(out, s.waitGone(name, of, s.waitLimit()))
	}
	return out
}

// waitGone waits until nothing of a selection is left.
func (s jobSteps) waitGone(name string, of selection, within time.Duration) scenario.Step {
	return scenario.Step{Name: s.uniqueStep(name, "gone"), Wait: &scenario.Wait{
		Objects: of.resource, Namespace: "*", Selector: selectorText(of.labels), Deleted: true, Optional: true, Within: unit.Duration(within),
	}}
}

// cleanUpEarlier deletes what an earlier run of the job left behind, as kube-burner
// does before a job. On a plane of windtunnel's own there is nothing.
func (s jobSteps) cleanUpEarlier(items []item) []scenario.Step {
	if !s.j.Cleanup {
		return nil
	}
	steps := s.hookSteps("beforeCleanup")
	for _, resource := range leftoverResources(items) {
		steps = append(steps, s.removeIfAny(dnsLabel(s.j.Name)+"-cleanup-"+dnsLabel(resource), selection{resource, map[string]string{labelJob: s.j.Name}})...)
	}
	return append(steps, s.hookSteps("afterCleanup")...)
}

// leftoverResources returns the resources by which all that a job made is deleted: its
// namespaces, and what is in none of them.
func leftoverResources(items []item) []string {
	var out []string
	if needsNamespaces(items) {
		out = append(out, "namespaces")
	}
	seen := map[string]bool{"namespaces": true}
	for _, it := range items {
		if (it.cluster || it.fixed != "") && !seen[it.resource] {
			seen[it.resource], out = true, append(out, it.resource)
		}
	}
	return out
}

// collectGarbage deletes what a job made: garbage collection.
func (s jobSteps) collectGarbage(items []item) []scenario.Step {
	steps := s.hookSteps("beforeGC")
	name := dnsLabel(s.j.Name) + "-gc"
	own := map[string]string{labelJob: s.j.Name}
	if s.deletesObjects("") {
		seen := map[string]bool{}
		for _, it := range items {
			if !it.cluster && it.fixed == "" && !seen[it.resource] {
				seen[it.resource] = true
				steps = append(steps, s.removeIfAny(name+"-"+dnsLabel(it.resource), selection{it.resource, own})...)
			}
		}
	}
	for _, resource := range leftoverResources(items) {
		if resource != "namespaces" {
			steps = append(steps, s.removeIfAny(name+"-"+dnsLabel(resource), selection{resource, own})...)
			continue
		}
		steps = append(steps, s.collectNamespaces(name)...)
	}
	return append(steps, s.hookSteps("afterGC")...)
}

// deletesObjects tells whether objects are deleted before their namespaces, by a job's own
// strategy or the global one.
func (s jobSteps) deletesObjects(own string) bool {
	return byDefault(own, s.cfg.Global.DeletionStrategy) == "gvr"
}

// collectNamespaces deletes the namespaces that a job made first.
func (s jobSteps) collectNamespaces(name string) []scenario.Step {
	base := s.j.Namespace
	if s.j.NamespacedIterations {
		base += "-"
	}
	had, ok := s.spaces[base]
	if !ok || had.owner != s.j.Name {
		return nil
	}
	delete(s.spaces, base)
	var steps []scenario.Step
	for _, step := range had.steps {
		steps = append(steps, scenario.Step{Name: s.uniqueStep(name, "namespaces"), Delete: &scenario.Delete{
			Step: step, Pace: scenario.Pace{Constant: s.j.rateOf()}, Timeout: unit.Duration(s.cfg.Global.RequestTimeout),
		}})
	}
	return append(steps, s.waitGone(name+"-namespaces", selection{"namespaces", map[string]string{labelJob: s.j.Name}}, s.cfg.Global.collectWithin()))
}

// collectWithin is how long a garbage collection may take.
func (g *global) collectWithin() time.Duration {
	if g.GCTimeout > 0 {
		return g.GCTimeout
	}
	return max(g.Timeout, time.Minute)
}

// statusPaths turns customStatusPaths into a condition in CEL: each of the jq
// programs, run on an object's status, is to give its value at least once.
func statusPaths(paths []statusPath) (string, error) {
	var out []string
	for _, p := range paths {
		text, err := jq.Condition(p.Key, "self.status", p.Value)
		if err != nil {
			return "", err
		}
		out = append(out, text)
	}
	if len(out) > 1 {
		for i, text := range out {
			out[i] = "(" + text + ")"
		}
	}
	return strings.Join(out, " && "), nil
}
