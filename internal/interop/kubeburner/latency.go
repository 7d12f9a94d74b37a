package kubeburner

import (
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/scenario"
)

// latency says which lifecycle a measurement is about, and which of its phases
// kube-burner's conditions are.
type latency struct {
	measurement string
	lifecycle   string
	phases      map[string]string // by condition
	unlabelled  bool              // its objects are nobody's: not grouped by job
}

// latencyMeasurements returns the measurements that are made of lifecycles.
func latencyMeasurements() []latency {
	pods := map[string]string{
		"PodCreated": "podCreated", "PodScheduled": "podScheduled", "PodInitialized": "podInitialized",
		"PodContainersReady": "podContainersReady", "PodReady": "podReady", "PodReadyToStartContainers": "podReadyToStartContainers",
	}
	instance := map[string]string{
		"VMIPending": "pending", "VMIScheduling": "scheduling", "VMIScheduled": "scheduled", "VMIRunning": "running", "VMIReady": "ready",
	}
	maps.Copy(instance, pods)
	return []latency{
		{measurement: "jobLatency", lifecycle: "job", phases: map[string]string{"StartTime": "started", "Complete": "complete"}},
		{measurement: "pvcLatency", lifecycle: "pvc", phases: map[string]string{"Pending": "pending", "Bound": "bound", "Lost": "lost"}},
		{measurement: "nodeLatency", lifecycle: "node", phases: map[string]string{"Ready": "ready"}, unlabelled: true},
		{measurement: "vmiLatency", lifecycle: "vmi", phases: instance},
		{measurement: "vmimLatency", lifecycle: "vmim", phases: map[string]string{
			"Pending": "pending", "Scheduling": "scheduling", "Scheduled": "scheduled", "PreparingTarget": "preparingTarget",
			"TargetReady": "targetReady", "Running": "running", "Succeeded": "succeeded", "Failed": "failed"}},
		{measurement: "dataVolumeLatency", lifecycle: "datavolume", phases: map[string]string{"Bound": "bound", "Running": "running", "Ready": "ready"}},
		{measurement: "volumeSnapshotLatency", lifecycle: "volumesnapshot", phases: map[string]string{"Ready": "ready"}},
	}
}

// lifecycleLatency declares the lifecycle that a measurement is about and makes
// objectives of its thresholds: from when an object was created, as its watch
// showed it. It is false where the measurement is not made of lifecycles.
func (o objectives) lifecycleLatency(j *job, m measurement) bool {
	list := latencyMeasurements()
	i := slices.IndexFunc(list, func(l latency) bool { return l.measurement == m.Name })
	if i < 0 {
		return false
	}
	if j.JobType != "create" {
		return true
	}
	l := list[i]
	of := scenario.Lifecycle{Use: l.lifecycle, Group: labelJob}
	if l.unlabelled {
		of.Group = ""
	}
	o.declareLifecycle(of)
	for _, t := range m.Thresholds {
		use, phase := l.lifecycle, l.phases[t.ConditionType]
		if m.Name == "vmiLatency" && t.ConditionType == "VMReady" {
			use, phase = "vm", "ready"
			o.declareLifecycle(scenario.Lifecycle{Use: use, Group: labelJob})
		}
		name := fmt.Sprintf("%s %s of %s", m.Name, t.ConditionType, dnsLabel(j.Name))
		if phase == "" {
			o.addUnsupported(o.lineAt(t.At), "threshold.conditionType", name, "there is no such phase in the lifecycle of a "+l.lifecycle)
			continue
		}
		labels := map[string]string{"lifecycle": use, "phase": "created.." + phase}
		if !l.unlabelled {
			labels["group"] = j.Name
		}
		o.addThreshold(name, "lifecycle", labels, t)
	}
	return true
}

// judgeInitialized judges when pods' init containers have finished, which the lifecycles
// of pods that are recorded in every run do not hold.
func (o objectives) judgeInitialized(j *job, t threshold) {
	o.declareLifecycle(scenario.Lifecycle{Name: "started-pod", Of: "pods", Selector: labelJob, Group: labelJob, Phases: []scenario.Phase{{Condition: "Initialized"}}})
	o.addThreshold("podLatency Initialized of "+dnsLabel(j.Name), "lifecycle", map[string]string{"lifecycle": "started-pod", "phase": "created..initialized", "group": j.Name}, t)
}

// declareLifecycle adds a lifecycle, once.
func (o objectives) declareLifecycle(l scenario.Lifecycle) {
	for _, have := range o.out.Lifecycles {
		if have.Use == l.Use && have.Name == l.Name {
			return
		}
	}
	o.out.Lifecycles = append(o.out.Lifecycles, l)
}

// addThreshold makes an objective of a threshold; one that is there already, because
// another job has the same, is not made again.
func (o objectives) addThreshold(name, sli string, labels map[string]string, t threshold) {
	limit := t.Threshold.Seconds()
	one := scenario.Objective{Name: name, SLI: sli, Labels: labels, Statistic: statisticOf(t.Metric), Max: &limit}
	if !slices.ContainsFunc(o.out.Objectives, func(x scenario.Objective) bool { return x.Name == one.Name && x.Statistic == one.Statistic }) {
		o.out.Objectives = append(o.out.Objectives, one)
	}
}

// statisticOf is our word for one of kube-burner's.
func statisticOf(metric string) string {
	return map[string]string{"P99": "p99", "P95": "p95", "P50": "p50", "Avg": "mean", "Max": "max"}[metric]
}
