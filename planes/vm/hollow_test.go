package vm_test

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/hollow"
)

// TestVMPlaneOnAHollowCluster flies the VM plane's processes on an API server in
// memory, which has a binder in place of the scheduler. What it has not is declared in
// docs/how-to/hollow.md: the webhook is never asked, and the controller gives instances the
// first phase and the finalizer that they would have of it.
func TestVMPlaneOnAHollowCluster(t *testing.T) {
	s := repotest.Must(hollow.New(hollow.Options{Models: hollow.Models{Binder: true, ServiceAccounts: true}}))(t)
	t.Cleanup(func() { _ = s.Close() })
	c := repotest.Must(s.Cluster("vms"))(t)
	config := filepath.Join(t.TempDir(), "kubeconfig")
	repotest.NoError(t, c.Endpoint().WriteKubeconfig(config))
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
		if step.Note != "" {
			t.Errorf("step %s: %s", step.Name, step.Note)
		}
	}
	if r.Facts.Ended.Reason != "done" {
		t.Errorf("the run ended with %s: %s", r.Facts.Ended.Reason, r.Facts.Ended.Text)
	}
	if names := r.Facts.Series.Names(); slices.Contains(names, "windtunnel_vm_webhook_duration_seconds_count") {
		t.Error("the webhook was asked: docs/how-to/hollow.md says that there is no admission")
	}
}
