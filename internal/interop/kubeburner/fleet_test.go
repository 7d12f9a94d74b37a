package kubeburner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestNodesFitAffinity: nodes get the labels of selectors and of required node
// affinity; a label of which two values are wanted has the first, and a note.
func TestNodesFitAffinity(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"c.yml": "jobs:\n- name: j\n  namespace: j\n  jobIterations: 1\n  objects:\n  - {objectTemplate: pod.yml, replicas: 1}\n  - {objectTemplate: other.yml, replicas: 1}\n",
		"pod.yml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  nodeSelector: {zone: a}\n" +
			"  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: disk, operator: In, values: [fast]}]}]}}}\n  containers: [{name: a}]\n",
		"other.yml": "apiVersion: v1\nkind: Pod\nmetadata: {name: q}\nspec: {nodeSelector: {zone: b}, containers: [{name: a}]}\n",
	} {
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	s, notes, err := Import(filepath.Join(dir, "c.yml"), Options{Set: map[string]string{"Nodes": "2"}})
	repotest.NoError(t, err)
	if got, want := fmt.Sprint(s.Fleet.Labels), "map[disk:fast node-role.kubernetes.io/worker: zone:a]"; got != want {
		t.Errorf("labels %s, want %s", got, want)
	}
	if !strings.Contains(fmt.Sprint(notes), "pods select nodes with zone=b, which no simulated node has") {
		t.Error(notes)
	}
}
