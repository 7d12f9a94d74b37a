package main

import (
	"path/filepath"
	"testing"
)

// TestVMPlaneIsMeasured flies the VM plane of the real binary, whose processes
// have Kubernetes linked into them, and holds that each measure of the scenario
// has a value that can be.
func TestVMPlaneIsMeasured(t *testing.T) {
	u := newTunnel(t)
	file, err := filepath.Abs("../../examples/vm/density.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cmd, said := u.start("run", file, "--out", "run", "--set", "vms=10", "--set", "limiter=5/10", "--set", "kind=vm")
	if code := exitOf(cmd.Wait()); code > 2 {
		t.Fatalf("exit code %d: %s", code, said)
	}
	j := u.verdict()
	for key, within := range map[string][2]float64{
		"controller_write_calls_per_instance":            {10, 18}, // six for the instance, six for its VirtualMachine, conflicts beside them
		"agent_write_calls_per_instance":                 {3, 9},
		"controller_waited_for_its_own_limiter":          {10, 1e5}, // seconds of all its workers: at 5/s some 120 calls queue for 22 s
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
}
