package diagnose_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/record"
)

// near are things that wait beside a resource that is not used up, one thing each:
// none of them is a limit.
var near = []struct{ what, series string }{
	{"items that wait a while for five workers of whom none is busy", `
		kube-controller-manager workqueue_queue_duration_seconds_sum{name="replicaset"} +0.61
		kube-controller-manager workqueue_work_duration_seconds_sum{name="replicaset"} +0.08`},
	{"items that stand before workers of whom one in two is busy", `
		kube-controller-manager workqueue_depth{name="replicaset"} =3
		kube-controller-manager workqueue_work_duration_seconds_sum{name="replicaset"} +2.5`},
	{"an operator's queue whose items are worked at quickly", `
		operator workqueue_queue_duration_seconds_sum{name="widget"} +0.6
		operator workqueue_work_duration_seconds_sum{name="widget"} +0.3`},
	{"an operator's queue of whose four reconcilers two are busy", `
		operator controller_runtime_max_concurrent_reconciles{controller="widget"} =4
		operator workqueue_queue_duration_seconds_sum{name="widget"} +5
		operator workqueue_work_duration_seconds_sum{name="widget"} +2`},
	{"a level with free seats in whose queues requests are for a moment", `
		kube-apiserver apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",priority_level="workload-low"} +0.1
		kube-apiserver apiserver_flowcontrol_priority_level_seat_utilization_sum{phase="executing",priority_level="workload-low"} +3e8
		kube-apiserver apiserver_flowcontrol_priority_level_seat_utilization_count{phase="executing",priority_level="workload-low"} +1e9`},
	{"a webhook that answers within its time", `
		kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +2
		kube-apiserver apiserver_admission_webhook_admission_duration_seconds_sum{name="quick",operation="CREATE"} +1
		kube-apiserver apiserver_admission_webhook_admission_duration_seconds_count{name="quick",operation="CREATE"} +100`},
	{"many calls that a limiter with tokens lets go at once", `
		kube-controller-manager rest_client_rate_limiter_duration_seconds_sum{verb="POST"} +0.3
		kube-controller-manager rest_client_rate_limiter_duration_seconds_count{verb="POST"} +0.5`},
	{"a CPU limit that is reached in half of the few periods in which anything runs", `
		kube-apiserver cgroup_cpu_periods_total +0.8
		kube-apiserver cgroup_cpu_throttled_periods_total +0.4`},
	{"a component that collects garbage, and does little else", `
		kube-apiserver process_cpu_seconds_total +0.3
		kube-apiserver go_cpu_classes_gc_total_cpu_seconds_total +0.12`},
	{"locks for which somebody waits now and then", `
		kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +1
		kube-apiserver go_sync_mutex_wait_total_seconds_total +0.3`},
	{"pods that wait for a scheduler that hardly searches", `
		kube-scheduler scheduler_scheduling_algorithm_duration_seconds_sum +0.2
		kube-scheduler scheduler_pending_pods{queue="active"} =2`},
	{"scans of a cache by workers who have nothing else to do", `
		app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",kind="ResourceTracker",verb="ListCache"} +0.4
		app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",kind="ResourceTracker",verb="ListCache"} +20
		app-controller process_cpu_seconds_total +0.4
		app-controller process_cpu_wait_seconds_total +0.1
		app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
		app-controller workqueue_queue_duration_seconds_sum{name="application"} +0.1
		app-controller workqueue_unfinished_work_seconds{name="application"} =0
		app-controller workqueue_work_duration_seconds_sum{name="application"} +0.5`},
	{"a disk that is busy for half of the time", `
		etcd etcd_disk_wal_fsync_duration_seconds_sum +0.5
		etcd etcd_disk_wal_fsync_duration_seconds_count +100`},
}

// What waits beside a resource that is not used up accuses nothing: the one finding
// says so, and what came nearest to its limit, with evidence that can be checked.
func TestNothingLimitedIt(t *testing.T) {
	for _, c := range near {
		got := made{series: c.series}.fly(t)
		if len(got) != 1 || got[0].Cause != diagnose.Nothing || !strings.HasPrefix(got[0].Sentence, "No bottleneck. Closest to its limit: ") {
			t.Errorf("%s: %+v", c.what, got)
			continue
		}
		sane(t, c.what, got)
	}
}

// Whatever waits beside them, and however much: 20 of 20 calm planes are accused of
// nothing, and of 10 of 10 on a busy machine the machine comes first.
func TestCalmPlanesAndBusyMachines(t *testing.T) {
	random := rand.New(rand.NewPCG(16, 4))
	some := func() string {
		var b strings.Builder
		for _, i := range random.Perm(len(near))[:3] {
			b.WriteString(near[i].series + "\n")
		}
		return b.String()
	}
	machine := func(idle, waits float64) string {
		return fmt.Sprintf("\nhost host_cpu_seconds_total{mode=\"idle\"} +%g\nhost host_cpu_seconds_total{mode=\"user\"} +%g\nkube-apiserver process_cpu_wait_seconds_total +%g\n",
			idle, 2-idle, waits)
	}
	for i := range 20 {
		series := some() + machine(0.5+random.Float64(), 0.05*random.Float64())
		if got := (made{series: series}).fly(t); len(got) != 1 || got[0].Cause != diagnose.Nothing {
			t.Errorf("calm plane %d: %+v of %s", i, got, series)
		}
	}
	for i := range 10 {
		series := some() + machine(0.05*random.Float64(), 0.2+random.Float64())
		if got := (made{series: series}).fly(t); got[0].Cause != diagnose.Machine {
			t.Errorf("busy machine %d: %+v of %s", i, got, series)
		}
	}
}

// What came nearest is told with how far it went, and where something was full for
// too little of the time to be the limit that is told as well.
func TestNearestToItsLimit(t *testing.T) {
	memory := limited(record.ComponentFact{Name: "kube-apiserver", MemoryLimit: 5e8, CPULimit: 2})
	for _, c := range []struct {
		series string
		says   string
	}{
		{"kube-controller-manager workqueue_work_duration_seconds_sum{name=\"replicaset\"} +3.1", "limit: the workers of queue replicaset of kube-controller-manager, 62 % in its busiest 5 s."},
		{"kube-apiserver cgroup_memory_working_set_bytes =4.25e8", "limit: the memory limit of kube-apiserver, 85 % in its busiest 5 s. Too little work waited for this to matter."},
		{"kube-apiserver process_cpu_seconds_total +1.2", "limit: the CPU limit of kube-apiserver, 60 % in its busiest 5 s."},
	} {
		got := made{series: c.series, manifest: memory}.fly(t)
		if len(got) != 1 || !strings.Contains(got[0].Sentence, c.says) || len(got[0].Evidence) != 3 {
			t.Errorf("%s: %+v", c.series, got)
		}
	}
}
