package flight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

const stageOfWidgets = `apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: widget-ready}
spec:
  resourceRef: {apiGroup: example.org/v1, kind: Widget}
  selector: {matchLabels: {a: b}}
  next: {delete: true}
`

const widgetDefinition = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.org}
spec: {group: example.org, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [{name: v1, served: true, storage: true}]}
`

// TestFaultyStageFiles: what of a file of fleet.stages cannot work is an error of input,
// with its file and line, before anything is started.
func TestFaultyStageFiles(t *testing.T) {
	for _, tt := range []struct{ name, file, crds, want string }{
		{"a kind that nothing brings", stageOfWidgets, "", "own.yaml:5: stage widget-ready: spec.resourceRef: example.org/v1 Widget: no plane has this kind by itself"},
		{"a kind that crds bring", stageOfWidgets, "crds: [crd.yaml]\n", ""},
		{"a kind of kwok's kubelet", "apiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterResourceUsage\nmetadata: {name: u}\nspec: {}\n---\n" + stageOfWidgets, "crds: [crd.yaml]\n",
			"own.yaml:1: ClusterResourceUsage u: a scenario's fleet has stages only"},
		{"an object of no kind", "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: g}\n---\n" + stageOfWidgets, "crds: [crd.yaml]\n",
			"own.yaml:1: Gadget g: no plane has this kind by itself"},
		{"an object in a namespace", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m, namespace: n}\n---\n" + stageOfWidgets, "crds: [crd.yaml]\n",
			"own.yaml:1: ConfigMap m: it belongs into a namespace"},
		{"an object in none", "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: s}\nprovisioner: p\n---\n" + stageOfWidgets, "crds: [crd.yaml]\n", ""},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"own.yaml": tt.file, "crd.yaml": widgetDefinition,
			"s.yaml": "scenario: x\n" + tt.crds + "fleet: {nodes: 1, stages: [fast, own.yaml]}\nsteps: [{pause: 1s}]\n",
		} {
			repotest.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		_, err := Check(Options{File: filepath.Join(dir, "s.yaml")})
		if got := said(err); tt.want == "" && err != nil || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
