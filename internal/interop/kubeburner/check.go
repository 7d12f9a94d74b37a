package kubeburner

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/text"
)

// checker checks a config by itself.
type checker struct{ *source }

// checkConfig says what is wrong with the config by itself, before any template is
// read, and fills in what follows from other fields.
func (c checker) checkConfig() bool {
	g := &c.cfg.Global
	if len(c.cfg.Jobs) == 0 {
		c.addFaultAt(c.lineAt("jobs"), "config: no jobs")
	}
	c.oneOf(g.At+".deletionStrategy", "global.deletionStrategy", g.DeletionStrategy, "default", "gvr")
	c.measurementNames(g.Measurements)
	names := map[string]bool{}
	for i := range c.cfg.Jobs {
		j := &c.cfg.Jobs[i]
		if names[j.Name] {
			c.addFaultAt(c.lineAt(j.At+".name"), "job.name: %q stands twice", j.Name)
		}
		names[j.Name] = true
		c.checkJob(j)
		if g.WaitWhenFinished {
			if j.GC {
				c.addFaultAt(c.lineAt(j.At+".gc"), "job.gc: global.waitWhenFinished would wait for what is gone")
			}
			j.PodWait, j.WaitWhenFinished = false, false
		}
	}
	return len(c.faults) == 0
}

func (c checker) oneOf(path, name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.addFaultAt(c.lineAt(path), "%s: %q is not one of %s%s", name, value, strings.Join(allowed, ", "), text.DidYouMean(value, allowed))
	}
}

func (c checker) checkJob(j *job) {
	switch {
	case j.Name == "":
		c.addFaultAt(c.lineAt(j.At), "job.name: a name is needed")
	case len(validation.IsDNS1123Subdomain(j.Name)) > 0 || len(j.Name) > 63:
		c.addFaultAt(c.lineAt(j.At+".name"), "job.name: %q is not a DNS name of at most 63 characters", j.Name)
	}
	c.oneOf(j.At+".jobType", "job.jobType", j.JobType, "create", "delete", "patch", "read", "kubevirt")
	if j.JobIterations < 1 {
		c.addFaultAt(c.lineAt(j.At+".jobIterations"), "job.jobIterations: %d is below 1", j.JobIterations)
	}
	if j.IterationsPerNamespace < 1 {
		c.addFaultAt(c.lineAt(j.At+".iterationsPerNamespace"), "job.iterationsPerNamespace: %d is below 1", j.IterationsPerNamespace)
	}
	if j.JobType == "create" && j.Namespace != "" && len(validation.IsDNS1123Label(j.Namespace)) > 0 {
		c.addFaultAt(c.lineAt(j.At+".namespace"), "job.namespace: %q is not a DNS label", j.Namespace)
	}
	if len(j.Objects) == 0 {
		c.addNote(c.lineAt(j.At), "job.objects", "job %s has no objects: it makes and changes nothing, as in kube-burner", j.Name)
	}
	c.checkLabels(j.At+".namespaceLabels", "job.namespaceLabels", j.NamespaceLabels)
	c.oneOf(j.At+".executionMode", "job.executionMode", byDefault(j.ExecutionMode, "parallel"), "parallel", "sequential")
	c.oneOf(j.At+".metricsClosing", "job.metricsClosing", byDefault(j.MetricsClosing, "afterJobPause"), "afterJob", "afterJobPause", "afterMeasurements")
	c.measurementNames(j.Measurements)
	c.checkChurn(j)
	c.checkIncrease(j)
	for i := range j.Hooks {
		h := &j.Hooks[i]
		c.oneOf(h.At+".when", "hook.when", h.When, "beforeJobExecution", "afterJobExecution", "beforeChurn", "afterChurn",
			"beforeCleanup", "afterCleanup", "beforeGC", "afterGC", "onEachIteration")
		if len(h.Cmd) == 0 {
			c.addFaultAt(c.lineAt(h.At), "hook.cmd: a command is needed")
		}
	}
	for i := range j.Watchers {
		w := &j.Watchers[i]
		if w.Kind == "" {
			c.addFaultAt(c.lineAt(w.At), "watcher.kind: a kind is needed")
		}
		c.checkLabels(w.At+".labelSelector", "watcher.labelSelector", w.LabelSelector)
	}
	for i := range j.Objects {
		c.checkObject(j, &j.Objects[i])
	}
}

func byDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// checkChurn brings the fields of v1 into the form of v2.
func (c checker) checkChurn(j *job) {
	x := &j.ChurnConfig
	if j.Churn {
		*x = churn{At: j.At, Cycles: j.ChurnCycles, Percent: j.ChurnPercent, Duration: j.ChurnDuration, Delay: j.ChurnDelay, Mode: "namespaces", DeletionStrategy: j.ChurnStrategy}
	}
	x.Mode = byDefault(x.Type, byDefault(x.Mode, "namespaces"))
	c.oneOf(x.At+".mode", "churn.mode", x.Mode, "namespaces", "objects")
	c.oneOf(x.At+".deletionStrategy", "churn.deletionStrategy", byDefault(x.DeletionStrategy, "default"), "default", "gvr")
	if x.Percent < 0 || x.Percent > 100 {
		c.addFaultAt(c.lineAt(x.At+".percent"), "churn.percent: %d is not in 0 to 100", x.Percent)
	}
	if x.Cycles < 0 {
		c.addFaultAt(c.lineAt(x.At+".cycles"), "churn.cycles: %d is below 0", x.Cycles)
	}
}

func (c churn) isOn() bool { return c.Cycles > 0 || c.Duration > 0 }

func (c checker) checkIncrease(j *job) {
	l := j.IncrementalLoad
	if l == nil {
		return
	}
	c.oneOf(l.Pattern.At+".type", "pattern.type", byDefault(l.Pattern.Type, "linear"), "linear", "exponential")
	if l.StartIterations < 0 || l.TotalIterations < 0 {
		c.addFaultAt(c.lineAt(l.At), "incremental: startIterations and totalIterations are not below 0")
	}
	if j.JobType != "create" {
		c.addFaultAt(c.lineAt(l.At), "job.incrementalLoad: belongs to jobs of type create")
	}
}

// checkLabels checks labels that are to be selected or set: the API server would refuse them,
// and kube-burner would try again until its timeout.
func (c checker) checkLabels(path, field string, labels map[string]string) {
	for _, name := range sortedKeys(labels) {
		if len(validation.IsQualifiedName(name)) > 0 {
			c.addFaultAt(c.lineAt(path), "%s: %q is no name of a label (write NAME: VALUE)", field, name)
		} else if why := validation.IsValidLabelValue(labels[name]); len(why) > 0 {
			c.addFaultAt(c.lineAt(path), "%s: %q is no value of the label %s", field, labels[name], name)
		}
	}
}

func (c checker) checkObject(j *job, o *object) {
	c.checkLabels(o.WaitOptions.At+".labelSelector", "waitOptions.labelSelector", o.WaitOptions.LabelSelector)
	c.checkLabels(o.At+".labelSelector", "object.labelSelector", o.LabelSelector)
	for _, name := range sortedKeys(o.LabelSelector) {
		if v2, ok := strings.CutPrefix(name, "kube-burner-"); ok && slices.Contains([]string{"job", "uuid", "runid", "index"}, v2) {
			c.addNote(c.lineAt(o.At+".labelSelector"), "object.labelSelector", "%s is a label of kube-burner v1; as v2, the import sets kube-burner.io/%s", name, v2)
		}
	}
	for _, older := range []int{o.NamespacesPerObject, o.SharingNamespacesCount} {
		if older != 0 {
			o.RepeatEveryNIterations = older
		}
	}
	if o.RepeatEveryNIterations < 1 {
		c.addFaultAt(c.lineAt(o.At+".repeatEveryNIterations"), "object.repeatEveryNIterations: %d is below 1", o.RepeatEveryNIterations)
	}
	if (j.JobType == "create" || j.JobType == "patch") && o.ObjectTemplate == "" {
		c.addFaultAt(c.lineAt(o.At), "object.objectTemplate: a file is needed")
	}
	if !slices.Contains([]string{"delete", "patch", "read"}, j.JobType) {
		return
	}
	if o.Kind == "" {
		c.addFaultAt(c.lineAt(o.At), "object.kind: the kind that job %q is to %s is needed", j.Name, j.JobType)
	}
	if len(o.LabelSelector) == 0 {
		c.addFaultAt(c.lineAt(o.At), "object.labelSelector: labels are needed: without them job %q would %s everything", j.Name, j.JobType)
	}
	if j.JobType == "patch" {
		c.oneOf(o.At+".patchType", "object.patchType", o.PatchType, sortedKeys(patchTypes())...)
		if o.PatchType == "application/apply-patch+yaml" && strings.HasSuffix(o.ObjectTemplate, "json") {
			c.addFaultAt(c.lineAt(o.At+".objectTemplate"), "object.objectTemplate: %s needs a template in YAML", o.PatchType)
		}
	}
}

// patchTypes returns the types of a patch, in kube-burner's words and ours.
func patchTypes() map[string]string {
	return map[string]string{
		"application/json-patch+json": "json", "application/merge-patch+json": "merge",
		"application/strategic-merge-patch+json": "strategic", "application/apply-patch+yaml": "apply",
	}
}

func (c checker) measurementNames(list []measurement) {
	for i := range list {
		m := &list[i]
		m.Thresholds = append(m.Thresholds, m.Config.Thresholds...)
		c.oneOf(m.At+".name", "measurement.name", m.Name, "podLatency", "jobLatency", "nodeLatency", "pvcLatency", "vmiLatency", "vmimLatency",
			"dataVolumeLatency", "volumeSnapshotLatency", "serviceLatency", "netpolLatency", "pprof")
		for k := range m.Thresholds {
			t := &m.Thresholds[k]
			c.oneOf(t.At+".metric", "threshold.metric", t.Metric, "P99", "P95", "P50", "Avg", "Max")
			if m.Name == "podLatency" {
				c.oneOf(t.At+".conditionType", "threshold.conditionType", t.ConditionType, "PodScheduled", "Initialized", "ContainersReady", "Ready")
			}
			if t.Threshold < time.Millisecond {
				c.addFaultAt(c.lineAt(t.At+".threshold"), "threshold.threshold: %s is below 1ms", t.Threshold)
			}
		}
	}
}
