package kubeburner

import (
	"slices"
	"testing"
	"time"
)

// TestWatchers: a job's watches are opened before its first object and held until the end
// of its jobPause, whatever kind of job it is and whatever its steps are.
func TestWatchers(t *testing.T) {
	const objects = "  objects: [{objectTemplate: templates/config.yml, replicas: 2, inputVars: {size: 1}}]\n"
	for name, job := range map[string]string{
		"create":         objects,
		"none":           "",
		"eachIteration":  objects + "  hooks: [{when: onEachIteration, cmd: [\"true\"]}]\n",
		"groups":         "  objects: [{objectTemplate: templates/config.yml, replicas: 2, inputVars: {size: 1}, group: {id: 2}}]\n",
		"podWait":        objects + "  podWait: true\n  waitWhenFinished: false\n",
		"delete":         "  jobType: delete\n  objects: [{kind: ConfigMap, labelSelector: {a: b}}]\n",
		"with gc":        objects + "  gc: true\n",
		"metricsClosing": objects + "  metricsClosing: afterJob\n",
	} {
		s, notes := imported(t, "jobs:\n- name: a\n  namespace: n\n  jobIterations: 3\n  qps: 10\n  jobPause: 10s\n"+
			"  watchers: [{kind: Pod, replicas: 3, labelSelector: {}}, {kind: Node, apiVersion: v1, replicas: 1}]\n"+job)
		watched := found(t, s, "a-watched").Parallel
		if len(watched) != 3 || watched[0].Beside || !watched[1].Beside || !watched[2].Beside {
			t.Errorf("%s: %+v", name, watched)
			continue
		}
		of, pods, nodes := watched[0].Sequence, watched[1].Requests, watched[2].Requests
		if first, last := of[0], of[len(of)-1]; time.Duration(first.Pause) != 400*time.Millisecond || time.Duration(last.Pause) != 10*time.Second {
			t.Errorf("%s: watched from %+v to %+v", name, first, last)
		}
		if pods.Count != 3 || pods.Pace.Constant != 7.5 || nodes.Count != 1 || nodes.Pace.Constant != 2.5 || time.Duration(pods.Mix[0].Hold) != held {
			t.Errorf("%s: %+v %+v", name, pods, nodes)
		}
		until := "a-pause"
		if name == "metricsClosing" {
			until = "a-verify-config"
		}
		if m := s.Measures[0]; m.Since != "a-watchers-open" || m.Until != until {
			t.Errorf("%s: the job lasts from %s to %s", name, m.Since, m.Until)
		}
		for _, n := range notes {
			if n.Field == "job.watchers" {
				t.Errorf("%s: %s", name, n)
			}
		}
	}
}

// TestJobsWithoutObjects: they do what else they have to do.
func TestJobsWithoutObjects(t *testing.T) {
	s, _ := imported(t, "jobs:\n- name: a\n  namespace: n\n  jobIterations: 3\n  jobIterationDelay: 2s\n  jobPause: 10s\n  qps: -1\n"+
		"  hooks: [{when: afterJobExecution, cmd: [\"true\"]}]\n  objects:\n- name: b\n  jobType: delete\n- name: c\n  beforeCleanup: x.sh\n  jobType: read\n"+
		"- name: d\n  objects: [{objectTemplate: templates/config.yml, replicas: 0}]\n")
	var names []string
	for _, step := range s.Steps {
		names = append(names, step.Name)
	}
	if want := []string{"a-pause", "a-after-job-execution", "a-pause-2", "c-before-cleanup"}; !slices.Equal(names, want) {
		t.Errorf("got %v, want %v", names, want)
	}
	if time.Duration(s.Steps[0].Pause) != 6*time.Second {
		t.Errorf("three delays are %v", s.Steps[0].Pause)
	}
}
