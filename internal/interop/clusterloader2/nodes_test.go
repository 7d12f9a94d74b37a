package clusterloader2_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestNodeLabels: nodes get the labels that pods select, or those that are
// given; what no node has is told before the run.
func TestNodeLabels(t *testing.T) {
	const job = "apiVersion: batch/v1\nkind: Job\nspec: {template: {spec: {nodeSelector: {purpose: batch}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: " +
		"{nodeSelectorTerms: [{matchExpressions: [{key: kind, operator: In, values: [simulated]}]}]}}}, containers: [{name: c}]}}}\n"
	other := strings.Replace(job, "purpose: batch", "purpose: web", 1)
	both := phase(strings.Replace(bundle, "cm.yaml", "job.yaml", 1)) + phase(strings.NewReplacer("cm.yaml", "other.yaml", "basename: a", "basename: b").Replace(bundle))
	for _, tt := range []struct {
		name, steps string
		set         map[string]string
		labels      string
		notes       string
		changes     int
	}{
		{"selected", phase(strings.Replace(bundle, "cm.yaml", "job.yaml", 1)), nil, "map[kind:simulated purpose:batch]",
			"c.yaml:5: nodeSelector: pods select nodes by labels, so all simulated nodes get kind=simulated,purpose=batch; if the nodes of your cluster have them, say so with --set NodeLabels=kind=simulated,purpose=batch", 1},
		{"said so", phase(strings.Replace(bundle, "cm.yaml", "job.yaml", 1)), map[string]string{"NodeLabels": "kind=simulated,purpose=batch"}, "map[kind:simulated purpose:batch]", "", 0},
		{"others", phase(strings.Replace(bundle, "cm.yaml", "job.yaml", 1)), map[string]string{"NodeLabels": "purpose=batch"}, "map[purpose:batch]",
			"c.yaml:5: nodeSelector: the pods of job.yaml select nodes with kind In (simulated), which no simulated node has: they stay pending", 1},
		{"two values", both, nil, "map[kind:simulated purpose:batch]",
			"c.yaml:6: nodeSelector: the pods of other.yaml select nodes with purpose=web, which no simulated node has: they stay pending\n" +
				"c.yaml:5: nodeSelector: pods select nodes by labels, so all simulated nodes get kind=simulated,purpose=batch; if the nodes of your cluster have them, say so with --set NodeLabels=kind=simulated,purpose=batch", 2},
		{"no pods", phase(bundle), nil, "map[]", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := folder(t, map[string]string{"c.yaml": top + tt.steps, "cm.yaml": cm, "job.yaml": job, "other.yaml": other})
			s, notes, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), clusterloader2.Options{Nodes: 3, Set: tt.set})
			repotest.NoError(t, err)
			native(t, s)
			var all []string
			changes := 0
			for _, n := range notes {
				all = append(all, clean(n.String(), dir))
				if n.Changes {
					changes++
				}
			}
			if got := fmt.Sprint(s.Fleet.Labels); got != tt.labels || strings.Join(all, "\n") != tt.notes || changes != tt.changes {
				t.Errorf("labels %s, want %s; %d notes change, want %d\n got %s\nwant %s", got, tt.labels, changes, tt.changes, strings.Join(all, "\n"), tt.notes)
			}
		})
	}
	s, notes := imported(t, map[string]string{"c.yaml": top + phase(strings.Replace(bundle, "cm.yaml", "job.yaml", 1)), "cm.yaml": cm, "job.yaml": job}, clusterloader2.Options{Nodes: 3, Attached: true})
	if len(s.Fleet.Labels) > 0 || notes != "" {
		t.Errorf("nodes of a cluster that is there: %v %s", s.Fleet.Labels, notes)
	}
	dir := folder(t, map[string]string{"c.yaml": top + phase(bundle), "cm.yaml": cm})
	_, _, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), clusterloader2.Options{Nodes: 1, Set: map[string]string{"NodeLabels": "a"}})
	if want := `--set NodeLabels=a: "a" is not a label such as pool=batch`; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestSelectorsOfAnotherForm: a nodeSelector that is no mapping is left to the plane.
func TestSelectorsOfAnotherForm(t *testing.T) {
	s, notes := imported(t, map[string]string{
		"c.yaml":   top + phase(strings.Replace(bundle, "cm.yaml}", "pod.yaml, templateFillMap: {NodeSelector: {{StructuralData .SELECTOR}}}}", 1)),
		"o.yaml":   "SELECTOR: '{pool: default}'\n",
		"pod.yaml": "apiVersion: v1\nkind: Pod\nspec:\n  nodeSelector: {{.NodeSelector}}\n  containers: [{name: a}]\n",
	}, clusterloader2.Options{Nodes: 1, Overrides: []string{"o.yaml"}})
	if notes != "" || len(s.Fleet.Labels) > 0 || fmt.Sprint(s.Steps[0].Create.With) != "map[NodeSelector:map[pool:default]]" {
		t.Errorf("%+v %+v\n%s", s.Fleet.Labels, s.Steps[0].Create.With, notes)
	}
}
