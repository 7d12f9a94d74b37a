package vm_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/diagnose"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// TestVMPlaneIsMeasured flies the VM plane of the real binary, whose processes
// have Kubernetes linked into them, under a controller's limit of 5/10. It holds
// that each measure of the scenario has a value that can be, and that the limit
// is found to be the cause.
func TestVMPlaneIsMeasured(t *testing.T) {
	run := filepath.Join(t.TempDir(), "run")
	cmd := exec.Command(repotest.Binary(t), "run", repotest.Path(t, "examples", "vm", "density.yaml"), "--out", run,
		"--set", "vms=20", "--set", "limiter=5/10", "--set", "kind=vm")
	if said, err := cmd.CombinedOutput(); err != nil && cmd.ProcessState.ExitCode() > 2 {
		t.Fatalf("%v: %s", err, said)
	}
	var j slo.Judgement
	var found []diagnose.Finding
	for name, into := range map[string]any{diagnose.File: &found, record.VerdictFile: &j} {
		raw, err := os.ReadFile(filepath.Join(run, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, into); err != nil {
			t.Fatal(err)
		}
	}
	for key, within := range map[string][2]float64{
		"controller_write_calls_per_instance":            {10, 18}, // six for the instance, six for its VirtualMachine, conflicts beside them
		"agent_write_calls_per_instance":                 {3, 9},
		"controller_waited_for_its_own_limiter":          {10, 1e5}, // seconds of all its workers: at 5/s some 240 calls queue for 46 s
		"agents_waited_for_their_own_limiters":           {0, 1e5},
		"refused_writes":                                 {0, 100},
		"life_vmi_created_to_running_p50_seconds":        {5, 120},
		"life_vm_created_to_instancerunning_p50_seconds": {5, 120},
	} {
		m, ok := j.Measures[key]
		if !ok || m.Value < within[0] || m.Value > within[1] {
			t.Errorf("%s is %+v (there: %v), want %v", key, m, ok, within)
		}
	}
	// What else the machine did may rightly come before what the plane was limited by.
	if len(found) > 1 && found[0].Cause == diagnose.Machine && j.Measures["host_others_share"].Value > slo.NoisyShare {
		found = found[1:]
	}
	if len(found) == 0 || found[0].Cause != diagnose.ClientThrottle || found[0].Component != "vm-controller" {
		t.Errorf("want %s of vm-controller first: %+v", diagnose.ClientThrottle, found)
	}
}
