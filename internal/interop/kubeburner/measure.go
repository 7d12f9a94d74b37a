package kubeburner

import (
	"fmt"

	"github.com/windtunnel/windtunnel/scenario"
)

// unsupported notes what cannot be honoured, and makes an objective of it whose
// verdict is unknown.
func (im *importer) unsupported(line int, field, name, why string) {
	im.note(line, field, "%s: %s", name, why)
	for _, o := range im.out.Objectives {
		if o.Name == name {
			return
		}
	}
	im.out.Objectives = append(im.out.Objectives, scenario.Objective{Name: name, Unsupported: why})
}

// measurements makes objectives of the thresholds of each job.
func (im *importer) measurements() {
	for i := range im.cfg.Jobs {
		j := &im.cfg.Jobs[i]
		for _, m := range merged(im.cfg.Global.Measurements, j.Measurements) {
			switch {
			case m.Name == "podLatency":
				im.podLatency(j, m)
			case !im.lifeLatency(j, m):
				im.elsewhere(j, m)
			}
		}
	}
}

// merged are the global measurements and the job's; the job's win.
func merged(global, job []measurement) []measurement {
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
func (im *importer) podLatency(j *job, m measurement) {
	if j.JobType != "create" {
		return
	}
	for _, t := range m.Thresholds {
		if t.ConditionType == "Initialized" {
			im.initialized(j, t)
			continue
		}
		limit := t.Threshold.Seconds()
		phase := map[string]string{"PodScheduled": "created..bound", "ContainersReady": "created..ready", "Ready": "created..ready"}[t.ConditionType]
		for _, group := range j.groupNames() {
			name := fmt.Sprintf("podLatency %s of %s", t.ConditionType, group)
			if t.ConditionType == "ContainersReady" {
				im.note(im.at(t.At), "threshold.conditionType", "ContainersReady is taken from the pod's condition Ready: simulated pods get both at once")
			}
			im.out.Objectives = append(im.out.Objectives, scenario.Objective{
				Name: name, SLI: "pod-startup", Labels: map[string]string{"group": group, "phase": phase}, Statistic: statisticOf(t.Metric), Max: &limit,
			})
		}
	}
}

// elsewhere says of a measurement that is not made here why, and what becomes
// of its thresholds.
func (im *importer) elsewhere(j *job, m measurement) {
	why := "is not measured"
	switch m.Name {
	case "serviceLatency", "netpolLatency":
		why = "needs pods whose containers run: simulated ones have none"
	case "pprof":
		why = "needs pods whose containers run; profiles of the plane's own components are another matter"
	}
	if len(m.Thresholds) == 0 {
		im.note(im.at(m.At+".name"), "measurement.name", "%s: %s", m.Name, why)
		return
	}
	for _, t := range m.Thresholds {
		im.unsupported(im.at(t.At), "measurement.thresholds", fmt.Sprintf("%s %s of %s", m.Name, t.ConditionType, label(j.Name)), m.Name+" "+why)
	}
}
