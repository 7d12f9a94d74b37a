package kubeburner

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestClaims: what makes claims has a fleet that binds them.
func TestClaims(t *testing.T) {
	spec := func(kind, spec string) string {
		return "apiVersion: v1\nkind: " + kind + "\nmetadata: {name: \"x-{{.Iteration}}\"}\nspec: " + spec + "\n"
	}
	for _, tt := range []struct{ name, objects, want string }{
		{"named", spec("PersistentVolumeClaim", "{storageClassName: disks}"), "[fast volumes] [disks]"},
		{"several", spec("PersistentVolumeClaim", "{storageClassName: \"disks-{{ mod .Iteration 2 }}\"}"), "[fast volumes] [disks-0 disks-1]"},
		{"default", spec("PersistentVolumeClaim", "{}"), "[fast volumes] []"},
		{"none", spec("PersistentVolumeClaim", "{storageClassName: \"\"}"), "[] []"},
		{"bound by name", spec("PersistentVolumeClaim", "{storageClassName: disks, volumeName: v}"), "[] []"},
		{"of volumes of its own", spec("PersistentVolumeClaim", "{storageClassName: manual}") + "---\n" + spec("PersistentVolume", "{storageClassName: manual}"), "[fast volumes] []"},
		{"of a stateful set", spec("StatefulSet", "{template: {spec: {}}, volumeClaimTemplates: [{metadata: {name: d}, spec: {storageClassName: disks}}]}"), "[fast volumes] [disks]"},
		{"of a pod", spec("Pod", "{volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: disks}}}}]}"), "[fast volumes] [disks]"},
		{"of a deployment", spec("Deployment", "{template: {spec: {volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {}}}}]}}}"), "[fast volumes] []"},
		{"no claims", spec("Pod", "{volumes: [{name: v, emptyDir: {}}]}"), "[] []"},
	} {
		dir := t.TempDir()
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, "o.yml"), []byte(tt.objects), 0o600))
		s, notes, err := convertConfig(filepath.Join(dir, "c.yml"), []byte("jobs: [{name: a, namespace: n, jobIterations: 3, objects: [{objectTemplate: o.yml}]}]"), Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		said := false
		for _, n := range notes {
			said = said || n.Field == "claims"
		}
		if got := fmt.Sprint(s.Fleet.Stages, s.Fleet.StorageClasses); got != tt.want || said != strings.Contains(tt.want, "volumes") {
			t.Errorf("%s: got %s (said %v), want %s", tt.name, got, said, tt.want)
		}
	}
}
