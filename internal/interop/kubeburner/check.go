package kubeburner

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/text"
)

// check says what is wrong with the config by itself, before any template is
// read, and fills in what follows from other fields.
func (im *importer) check() bool {
	g := &im.cfg.Global
	if len(im.cfg.Jobs) == 0 {
		im.add(im.at("jobs"), "config: no jobs")
	}
	im.oneOf(g.At+".deletionStrategy", "global.deletionStrategy", g.DeletionStrategy, "default", "gvr")
	im.measurementNames(g.Measurements)
	names := map[string]bool{}
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		if names[j.Name] {
			im.add(im.at(j.At+".name"), "job.name: %q stands twice", j.Name)
		}
		names[j.Name] = true
		im.checkJob(j)
		if g.WaitWhenFinished {
			if j.GC {
				im.add(im.at(j.At+".gc"), "job.gc: global.waitWhenFinished would wait for what is gone")
			}
			j.PodWait, j.WaitWhenFinished = false, false
		}
	}
	return len(im.faults) == 0
}

func (im *importer) oneOf(path, name, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		im.add(im.at(path), "%s: %q is not one of %s%s", name, value, strings.Join(allowed, ", "), text.DidYouMean(value, allowed))
	}
}

func (im *importer) checkJob(j *job) {
	switch {
	case j.Name == "":
		im.add(im.at(j.At), "job.name: a name is needed")
	case len(validation.IsDNS1123Subdomain(j.Name)) > 0 || len(j.Name) > 63:
		im.add(im.at(j.At+".name"), "job.name: %q is not a DNS name of at most 63 characters", j.Name)
	}
	im.oneOf(j.At+".jobType", "job.jobType", j.JobType, "create", "delete", "patch", "read", "kubevirt")
	if j.JobIterations < 1 {
		im.add(im.at(j.At+".jobIterations"), "job.jobIterations: %d is below 1", j.JobIterations)
	}
	if j.IterationsPerNamespace < 1 {
		im.add(im.at(j.At+".iterationsPerNamespace"), "job.iterationsPerNamespace: %d is below 1", j.IterationsPerNamespace)
	}
	if j.QPS < 0 {
		im.add(im.at(j.At+".qps"), "job.qps: %g is below 0", j.QPS)
	}
	if j.JobType == "create" && j.Namespace != "" && len(validation.IsDNS1123Label(j.Namespace)) > 0 {
		im.add(im.at(j.At+".namespace"), "job.namespace: %q is not a DNS label", j.Namespace)
	}
	if len(j.Objects) == 0 {
		im.add(im.at(j.At), "job.objects: no objects")
	}
	im.oneOf(j.At+".executionMode", "job.executionMode", byDefault(j.ExecutionMode, "parallel"), "parallel", "sequential")
	im.oneOf(j.At+".metricsClosing", "job.metricsClosing", byDefault(j.MetricsClosing, "afterJobPause"), "afterJob", "afterJobPause", "afterMeasurements")
	im.measurementNames(j.Measurements)
	im.checkChurn(j)
	im.checkIncrease(j)
	for i := range j.Hooks {
		h := &j.Hooks[i]
		im.oneOf(h.At+".when", "hook.when", h.When, "beforeJobExecution", "afterJobExecution", "beforeChurn", "afterChurn",
			"beforeCleanup", "afterCleanup", "beforeGC", "afterGC", "onEachIteration")
		if len(h.Cmd) == 0 {
			im.add(im.at(h.At), "hook.cmd: a command is needed")
		}
	}
	for i := range j.Watchers {
		w := &j.Watchers[i]
		if w.Kind == "" || w.Replicas < 1 {
			im.add(im.at(w.At), "watcher: a kind is needed, and replicas of at least 1")
		}
	}
	for i := range j.Objects {
		im.checkObject(j, &j.Objects[i])
	}
}

func byDefault(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// checkChurn brings the fields of v1 into the form of v2.
func (im *importer) checkChurn(j *job) {
	c := &j.ChurnConfig
	if j.Churn {
		*c = churn{At: j.At, Cycles: j.ChurnCycles, Percent: j.ChurnPercent, Duration: j.ChurnDuration, Delay: j.ChurnDelay, Mode: "namespaces"}
	}
	c.Mode = byDefault(c.Type, byDefault(c.Mode, "namespaces"))
	im.oneOf(c.At+".mode", "churn.mode", c.Mode, "namespaces", "objects")
	if c.Percent < 0 || c.Percent > 100 {
		im.add(im.at(c.At+".percent"), "churn.percent: %d is not in 0 to 100", c.Percent)
	}
	if c.Cycles < 0 {
		im.add(im.at(c.At+".cycles"), "churn.cycles: %d is below 0", c.Cycles)
	}
}

func (c churn) on() bool { return c.Cycles > 0 || c.Duration > 0 }

func (im *importer) checkIncrease(j *job) {
	l := j.IncrementalLoad
	if l == nil {
		return
	}
	im.oneOf(l.Pattern.At+".type", "pattern.type", byDefault(l.Pattern.Type, "linear"), "linear", "exponential")
	if l.StartIterations < 0 || l.TotalIterations < 0 {
		im.add(im.at(l.At), "incremental: startIterations and totalIterations are not below 0")
	}
	if j.JobType != "create" {
		im.add(im.at(l.At), "job.incrementalLoad: belongs to jobs of type create")
	}
}

func (im *importer) checkObject(j *job, o *object) {
	for _, older := range []int{o.NamespacesPerObject, o.SharingNamespacesCount} {
		if older != 0 {
			o.RepeatEveryNIterations = older
		}
	}
	if o.RepeatEveryNIterations < 1 {
		im.add(im.at(o.At+".repeatEveryNIterations"), "object.repeatEveryNIterations: %d is below 1", o.RepeatEveryNIterations)
	}
	if (j.JobType == "create" || j.JobType == "patch") && o.ObjectTemplate == "" {
		im.add(im.at(o.At), "object.objectTemplate: a file is needed")
	}
	if !slices.Contains([]string{"delete", "patch", "read"}, j.JobType) {
		return
	}
	if o.Kind == "" {
		im.add(im.at(o.At), "object.kind: the kind that job %q is to %s is needed", j.Name, j.JobType)
	}
	if len(o.LabelSelector) == 0 {
		im.add(im.at(o.At), "object.labelSelector: labels are needed: without them job %q would %s everything", j.Name, j.JobType)
	}
	if j.JobType == "patch" {
		im.oneOf(o.At+".patchType", "object.patchType", o.PatchType, sorted(patches())...)
		if o.PatchType == "application/apply-patch+yaml" && strings.HasSuffix(o.ObjectTemplate, "json") {
			im.add(im.at(o.At+".objectTemplate"), "object.objectTemplate: %s needs a template in YAML", o.PatchType)
		}
	}
}

// patches are the types of a patch, in kube-burner's words and ours.
func patches() map[string]string {
	return map[string]string{
		"application/json-patch+json": "json", "application/merge-patch+json": "merge",
		"application/strategic-merge-patch+json": "strategic", "application/apply-patch+yaml": "apply",
	}
}

func (im *importer) measurementNames(list []measurement) {
	for i := range list {
		m := &list[i]
		im.oneOf(m.At+".name", "measurement.name", m.Name, "podLatency", "jobLatency", "nodeLatency", "pvcLatency", "vmiLatency", "vmimLatency",
			"dataVolumeLatency", "volumeSnapshotLatency", "serviceLatency", "netpolLatency", "pprof")
		for k := range m.Thresholds {
			t := &m.Thresholds[k]
			im.oneOf(t.At+".metric", "threshold.metric", t.Metric, "P99", "P95", "P50", "Avg", "Max")
			if m.Name == "podLatency" {
				im.oneOf(t.At+".conditionType", "threshold.conditionType", t.ConditionType, "PodScheduled", "Initialized", "ContainersReady", "Ready")
			}
			if t.Threshold < time.Millisecond {
				im.add(im.at(t.At+".threshold"), "threshold.threshold: %s is below 1ms", t.Threshold)
			}
		}
	}
}
