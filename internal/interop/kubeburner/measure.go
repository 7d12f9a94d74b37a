package kubeburner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/scenario"
)

// addUnsupported notes what cannot be honoured, and makes an objective of it whose
// verdict is unknown.
func (t *target) addUnsupported(line int, field, name, why string) {
	t.noteChange(line, field, "%s: %s", name, why)
	for _, o := range t.out.Objectives {
		if o.Name == name {
			return
		}
	}
	t.out.Objectives = append(t.out.Objectives, scenario.Objective{Name: name, Unsupported: why})
}

// objectives makes what is judged of thresholds.
type objectives struct{ *target }

// lowerMeasurements makes objectives of the thresholds of each job.
func (o objectives) lowerMeasurements() {
	for i := range o.cfg.Jobs {
		j := &o.cfg.Jobs[i]
		for _, m := range mergeMeasurements(o.cfg.Global.Measurements, j.Measurements) {
			if !slices.ContainsFunc(j.Measurements, func(own measurement) bool { return own.Name == m.Name }) && !j.isMeasurable(m.Name) {
				continue // a global one: it is about the jobs that make such objects
			}
			switch {
			case m.Name == "podLatency":
				o.podLatency(j, m)
			case !o.lifecycleLatency(j, m):
				o.noteElsewhere(j, m)
			}
		}
	}
	o.ofNoJob()
}

// ofNoJob says of global thresholds that no job has objects for them: nothing would be
// left of them without a word.
func (o objectives) ofNoJob() {
	for _, m := range o.cfg.Global.Measurements {
		if len(m.Thresholds) == 0 || slices.ContainsFunc(o.cfg.Jobs, func(j job) bool { return j.isMeasurable(m.Name) }) {
			continue
		}
		for _, t := range m.Thresholds {
			o.addUnsupported(o.lineAt(t.At), "measurement.thresholds", fmt.Sprintf("%s %s", m.Name, t.ConditionType), "no job of the config makes objects that it is about")
		}
	}
}

// isMeasurable tells whether a job makes, or may make, objects that a measurement is about.
// What a controller makes of a custom resource nobody can tell: these may be pods.
func (j *job) isMeasurable(measurement string) bool {
	kinds := map[string]string{
		"jobLatency": "Job CronJob", "pvcLatency": "PersistentVolumeClaim StatefulSet", "volumeSnapshotLatency": "VolumeSnapshot",
		"dataVolumeLatency": "DataVolume VirtualMachine", "vmimLatency": "VirtualMachineInstanceMigration",
		"vmiLatency": "VirtualMachine VirtualMachineInstance VirtualMachineInstanceReplicaSet VirtualMachinePool",
		"podLatency": "Pod Deployment ReplicaSet ReplicationController StatefulSet DaemonSet Job CronJob",
	}[measurement]
	if kinds == "" {
		return true
	}
	return j.JobType == "create" && slices.ContainsFunc(j.items, func(it item) bool {
		group, _, grouped := strings.Cut(it.sample.APIVersion, "/")
		custom := measurement == "podLatency" && grouped && strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io")
		ephemeral := measurement == "pvcLatency" && len(it.sample.Spec.Volumes)+len(it.sample.Spec.Template.Spec.Volumes) > 0
		return custom || ephemeral || slices.Contains(strings.Fields(kinds), it.kind)
	})
}

// mergeMeasurements returns the global measurements and the job's; the job's win.
func mergeMeasurements(global, job []measurement) []measurement {
	var out []measurement
	for _, g := range global {
		own := false
		for _, m := range job {
			own = own || m.Name == g.Name
		}
		if !own {
			out = append(out, g)
		}
	}
	return append(out, job...)
}

// podLatency makes objectives of a job's thresholds on the start of its pods.
func (o objectives) podLatency(j *job, m measurement) {
	if j.JobType != "create" {
		return
	}
	for _, t := range m.Thresholds {
		if t.ConditionType == "Initialized" {
			o.judgeInitialized(j, t)
			continue
		}
		limit := t.Threshold.Seconds()
		phase := map[string]string{"PodScheduled": "created..bound", "ContainersReady": "created..ready", "Ready": "created..ready"}[t.ConditionType]
		for _, group := range j.groupNames() {
			name := fmt.Sprintf("podLatency %s of %s", t.ConditionType, group)
			if t.ConditionType == "ContainersReady" {
				o.addNote(o.lineAt(t.At), "threshold.conditionType", "ContainersReady is taken from the pod's condition Ready: simulated pods get both at once")
			}
			o.out.Objectives = append(o.out.Objectives, scenario.Objective{
				Name: name, SLI: "pod-startup", Labels: map[string]string{"group": group, "phase": phase}, Statistic: statisticOf(t.Metric), Max: &limit,
			})
		}
	}
}

// noteElsewhere says of a measurement that is not made here why, and what becomes
// of its thresholds.
func (o objectives) noteElsewhere(j *job, m measurement) {
	why := "is not measured"
	switch m.Name {
	case "serviceLatency", "netpolLatency":
		why = "needs pods whose containers run: simulated ones have none"
	case "pprof":
		why = "needs pods whose containers run; profiles of the plane's own components are another matter"
	}
	if len(m.Thresholds) == 0 {
		o.addNote(o.lineAt(m.At+".name"), "measurement.name", "%s: %s", m.Name, why)
		return
	}
	for _, t := range m.Thresholds {
		o.addUnsupported(o.lineAt(t.At), "measurement.thresholds", fmt.Sprintf("%s %s of %s", m.Name, t.ConditionType, dnsLabel(j.Name)), m.Name+" "+why)
	}
}
