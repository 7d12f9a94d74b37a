package vm_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The variables that name KubeVirt's own controller, and a file with its definitions.
const (
	controllerVariable  = "WINDTUNNEL_VIRT_CONTROLLER"
	definitionsVariable = "WINDTUNNEL_KUBEVIRT_CRDS"
)

// TestRealController flies examples/vm/real.yaml with KubeVirt's own controller and with that of
// the plane, and holds that both write as often for an instance: four updates and a patch of the
// controller, three updates of the agent; fewer where steps merge.
func TestRealController(t *testing.T) {
	binary, definitions := os.Getenv(controllerVariable), os.Getenv(definitionsVariable)
	if binary == "" || definitions == "" {
		t.Skipf("%s names no virt-controller, or %s no file of its definitions", controllerVariable, definitionsVariable)
	}
	folder := t.TempDir()
	repotest.NoError(t, os.CopyFS(folder, os.DirFS(repotest.Path(t, "examples", "vm"))))
	raw, err := os.ReadFile(definitions)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "kubevirt-crds.yaml"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"real", "reference"} {
		out := filepath.Join(t.TempDir(), "run")
		cmd := exec.Command(repotest.Binary(t), "run", filepath.Join(folder, "real.yaml"), "--out", out, "--set", "vms=10", "--set", "subject="+subject, "--set", "binary="+binary, "--set", "crds=kubevirt-crds.yaml")
		if said, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() > 2 {
			t.Fatalf("%s: %v: %s", subject, err, said)
		}
		j, _ := verdict(t, out)
		check(t, j, map[string]between{"updates_of_an_instance": {4, 8}, "patches_of_an_instance": {1, 2}})
	}
}
