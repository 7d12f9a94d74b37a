package vm_test

import (
	"math"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// TestVMPlaneOnAHollowCluster flies the VM plane's processes on an API server in
// memory, which has a binder in place of the scheduler. What it has not is declared in
// docs/how-to/hollow.md: the webhook is never asked, and the controller gives instances the
// first phase and the finalizer that they would have of it.
func TestVMPlaneOnAHollowCluster(t *testing.T) {
	config := planetest.WriteKubeconfig(t, planetest.Cluster(t, "vms", hollow.Models{Binder: true, ServiceAccounts: true}).Endpoint())
	out := flyWith(t, "vms=5", "--kubeconfig", config)
	j, _ := verdict(t, out)
	most := math.Inf(1)
	check(t, j, map[string]between{
		"controller_write_calls_per_instance":                 {2, most},
		"agent_write_calls_per_instance":                      {1, most},
		"lifecycle_vmi_created_to_running_p50_seconds":        {5, most},
		"lifecycle_vm_created_to_instancerunning_p50_seconds": {5, most},
	})
	r := repotest.Must(run.Open(out))(t)
	for _, step := range r.Facts.Steps {
		repotest.Equal(t, step.Note, "", "step %s", step.Name)
	}
	if r.Facts.Ended.Reason != "done" {
		t.Errorf("the run ended with %s: %s", r.Facts.Ended.Reason, r.Facts.Ended.Text)
	}
	if names := r.Facts.Series.Names(); slices.Contains(names, "windtunnel_vm_webhook_duration_seconds_count") {
		t.Error("the webhook was asked: docs/how-to/hollow.md says that there is no admission")
	}
}
