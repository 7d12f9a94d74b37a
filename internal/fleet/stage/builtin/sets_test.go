package builtin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fleet/stage/builtin"
)

const own = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: own}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {}
  steps: [{delete: true}]
`

func TestSets(t *testing.T) {
	base := t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "own.yaml"), []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := builtin.Sets([]string{"fast", "own.yaml", "volumes"}, base)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range f.Stages {
		names = append(names, s.Name)
	}
	all := strings.Join(names, " ")
	if !strings.Contains(all, "pod-ready") || !strings.Contains(all, "own") || len(f.Others) == 0 {
		t.Errorf("stages %s, %d others", all, len(f.Others))
	}
	for _, bad := range []string{"../own.yaml", "nosuch", "/etc/passwd"} {
		if _, err := builtin.Sets([]string{bad}, base); err == nil || !strings.Contains(err.Error(), "built-in sets are [chaos deployments fast general volumes]") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := builtin.Sets(nil, base); err == nil {
		t.Error("no stages, no error")
	}
}
