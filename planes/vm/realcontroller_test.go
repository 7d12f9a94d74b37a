package vm_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
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
	isHead := bytes.Contains(repotest.Must(os.ReadFile(binary))(t), []byte(api.FinalizerInstance))
	repotest.NoError(t, os.CopyFS(folder, os.DirFS(repotest.Path(t, "examples", "vm"))))
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "kubevirt-crds.yaml"), repotest.Must(os.ReadFile(definitions))(t), 0o600))
	for _, subject := range []string{"real", "reference"} {
		out := planetest.Fly(t, filepath.Join(folder, "real.yaml"), "--set", "vms=10", "--set", "subject="+subject, "--set", "binary="+binary, "--set", fmt.Sprint("former=", !isHead), "--set", "crds=kubevirt-crds.yaml")
		j, _ := verdict(t, out)
		check(t, j, map[string]between{"updates_of_an_instance": {4, 8}, "patches_of_an_instance": {1, 2}})
	}
}
