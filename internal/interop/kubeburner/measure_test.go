package kubeburner

import (
	"slices"
	"strings"
	"testing"
)

// TestGlobalThresholds: a global threshold is about the jobs that make such objects; where
// none does, that is said and the verdict cannot be a pass.
func TestGlobalThresholds(t *testing.T) {
	const jobs = "jobs:\n- {name: maps, namespace: n, objects: [{objectTemplate: templates/config.yml, inputVars: {size: 1}}]}\n" +
		"- {name: batch, namespace: n, objects: [{objectTemplate: templates/job.yml}]}\n"
	global := func(name, condition, in string) string {
		threshold := "thresholds: [{conditionType: " + condition + ", metric: P99, threshold: 5s}]"
		if in != "" {
			threshold = in + ": {" + threshold + "}"
		}
		return "global: {measurements: [{name: " + name + ", " + threshold + "}]}\n" + jobs
	}
	for _, tt := range []struct{ name, config, want string }{
		{"of jobs", global("jobLatency", "Complete", ""), "jobLatency Complete of batch"},
		{"in config", global("jobLatency", "Complete", "config"), "jobLatency Complete of batch"},
		{"of pods", global("podLatency", "Ready", ""), "podLatency Ready of batch"},
		{"of none", global("pvcLatency", "Bound", ""), "pvcLatency Bound: no job of the config makes objects that it is about"},
		{"of one job", "jobs: [{name: maps, namespace: n, objects: [{objectTemplate: templates/config.yml, inputVars: {size: 1}}], " +
			"measurements: [{name: podLatency, thresholds: [{conditionType: Ready, metric: P99, threshold: 5s}]}]}]", "podLatency Ready of maps"},
	} {
		s, _ := imported(t, tt.config)
		var got []string
		for _, o := range s.Objectives {
			if o.Unsupported != "" {
				o.Name += ": " + o.Unsupported
			}
			got = append(got, o.Name)
		}
		if want := []string{tt.want}; !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, want)
		}
	}
}

// TestNotesOnObjects: what of objects is not as on real nodes is said before the start.
func TestNotesOnObjects(t *testing.T) {
	_, notes := imported(t, "jobs:\n- {name: batch, namespace: n, objects: [{objectTemplate: templates/commands.yml}]}\n"+
		"- {name: away, jobType: delete, objects: [{kind: Pod, labelSelector: {kube-burner-job: batch}}]}\n")
	said := map[string]string{}
	for _, n := range notes {
		said[n.Field] = n.Text
	}
	for field, want := range map[string]string{
		"containers": "commands of containers are not executed", "object.objectTemplate": `has the key "image" twice in one mapping: the last value counts`,
		"object.labelSelector": "kube-burner-job is a label of kube-burner v1",
	} {
		if !strings.Contains(said[field], want) {
			t.Errorf("%s: %q", field, said[field])
		}
	}
}
