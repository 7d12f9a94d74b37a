package vm_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// between are the least and the most that a measure can be.
type between [2]float64

// TestVMPlaneIsMeasured holds that each measure of the scenario has a value that
// can be on any machine. A slow controller sees several changes at once and writes
// less often, but it makes each instance and its pod; conflicts have no bound.
// Starting takes no less than the model's time.
func TestVMPlaneIsMeasured(t *testing.T) {
	j, found := fly(t)
	most := math.Inf(1)
	check(t, j, map[string]between{
		"controller_write_calls_per_instance":                 {2, most},
		"agent_write_calls_per_instance":                      {1, most},
		"controller_waited_for_its_own_limiter":               {0, most},
		"agents_waited_for_their_own_limiters":                {0, most},
		"refused_writes":                                      {0, most},
		"lifecycle_vmi_created_to_running_p50_seconds":        {5, most},
		"lifecycle_vm_created_to_instancerunning_p50_seconds": {5, most},
	})
	if !slices.ContainsFunc(found, limit) {
		t.Errorf("%s of vm-controller is not among %+v", diagnose.ClientThrottle, found)
	}
}

// TestProofVMPlaneIsMeasured holds what the measures are where nobody else is busy,
// and that the limit comes before all else that was found.
func TestProofVMPlaneIsMeasured(t *testing.T) {
	repotest.Proof(t)
	j, found := fly(t)
	check(t, j, map[string]between{
		"controller_write_calls_per_instance":                 {10, 18}, // six for the instance, six for its VirtualMachine, conflicts beside them
		"agent_write_calls_per_instance":                      {3, 9},
		"controller_waited_for_its_own_limiter":               {10, 1e5}, // seconds of all its workers: at 5/s some 120 calls queue for 22 s
		"agents_waited_for_their_own_limiters":                {0, 1e5},
		"refused_writes":                                      {0, 100},
		"lifecycle_vmi_created_to_running_p50_seconds":        {5, 120},
		"lifecycle_vm_created_to_instancerunning_p50_seconds": {5, 120},
	})
	if len(found) == 0 || !limit(found[0]) {
		t.Errorf("want %s of vm-controller first: %+v", diagnose.ClientThrottle, found)
	}
}

// fly flies the VM plane of the real binary, whose processes have Kubernetes linked
// into them, under a controller's limit of 5/10.
func fly(t *testing.T) (slo.Judgement, []diagnose.Finding) {
	t.Helper()
	return verdict(t, flyWith(t, "vms=10", "--set", "limiter=5/10"))
}

// flyWith flies the VM plane with a parameter and other arguments, and returns the run's
// directory.
func flyWith(t *testing.T, parameter string, more ...string) string {
	t.Helper()
	return planetest.Fly(t, repotest.Path(t, "examples", "vm", "density.yaml"), append([]string{"--set", "kind=vm", "--set", parameter}, more...)...)
}

// verdict reads what was judged and found of a run.
func verdict(t *testing.T, dir string) (j slo.Judgement, found []diagnose.Finding) {
	t.Helper()
	for name, into := range map[string]any{diagnose.File: &found, record.VerdictFile: &j} {
		raw := repotest.Must(os.ReadFile(filepath.Join(dir, name)))(t)
		repotest.NoError(t, json.Unmarshal(raw, into))
	}
	return j, found
}

func check(t *testing.T, j slo.Judgement, bounds map[string]between) {
	t.Helper()
	for key, within := range bounds {
		m, ok := j.Measures[key]
		if !ok || m.Value < within[0] || m.Value > within[1] {
			t.Errorf("%s is %+v (there: %v), want %v", key, m, ok, within)
		}
	}
}

// limit says whether a finding is what the plane is limited by.
func limit(f diagnose.Finding) bool {
	return f.Cause == diagnose.ClientThrottle && f.Component == "vm-controller"
}
