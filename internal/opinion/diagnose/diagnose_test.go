package diagnose_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// limited is a manifest whose components have flags and limits.
func limited(parts ...record.ComponentFact) record.Manifest {
	return record.Manifest{Plane: record.PlaneFacts{Components: parts}}
}

// together is a manifest whose components share limits.
func together(cores float64, memory uint64) record.Manifest {
	m := limited(record.ComponentFact{Name: "etcd"}, record.ComponentFact{Name: "kube-apiserver"}, record.ComponentFact{Name: "kube-controller-manager"})
	m.Plane.CPULimit, m.Plane.MemoryLimit, m.Plane.Limited = cores, memory, true
	return m
}

// throttling of kube-apiserver in a share of its periods, with slow requests and
// everything that comes of them.
const slowServer = `
	kube-apiserver          cgroup_cpu_periods_total +10
	kube-apiserver          cgroup_cpu_throttled_periods_total +9.5
	kube-apiserver          apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +40
	kube-apiserver          apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",priority_level="workload-low"} +20
	kube-apiserver          etcd_request_duration_seconds_sum{operation="create"} +10
	kube-apiserver          etcd_request_duration_seconds_bucket{operation="create",le="0.005"} +0
	kube-apiserver          go_sync_mutex_wait_total_seconds_total +5
	kube-controller-manager rest_client_request_duration_seconds_sum{verb="POST"} +4.8
	kube-controller-manager workqueue_queue_duration_seconds_sum{name="replicaset"} +9
	kube-controller-manager workqueue_work_duration_seconds_sum{name="replicaset"} +5
	kube-controller-manager workqueue_depth{name="replicaset"} =9
`

// Each cause, provoked in the series, comes first, and with a share that makes
// sense.
func TestEachCauseComesFirst(t *testing.T) {
	for _, c := range []struct {
		what      string
		made      made
		cause     diagnose.Cause
		component string
		low, high float64
		says      string
	}{
		{"a CPU limit, and all that comes of it", made{series: slowServer, manifest: limited(record.ComponentFact{Name: "kube-apiserver", CPULimit: 0.2})},
			diagnose.CPULimit, "kube-apiserver", 0.9, 0.96, "its CPU limit in 95 % of the periods in which it wanted to run, and used 0.2 cores of the 0.2 that"},
		{"the CPU limit of the plane as a whole, which holds back all of its components", made{
			series:   strings.ReplaceAll(slowServer, "kube-apiserver          cgroup", "plane cgroup") + "kube-apiserver process_cpu_seconds_total +0.4\netcd process_cpu_seconds_total +0.15\noperator process_cpu_seconds_total +1",
			manifest: together(0.5, 0)},
			diagnose.CPULimit, "plane", 0.9, 0.96, "The plane as a whole was held back by its CPU limit in 95 % of the periods in which it wanted to run, and used 0.55 cores of the 0.5 that"},
		{"the memory limit of the plane as a whole", made{series: "plane cgroup_memory_limit_hits_total +30\nplane cgroup_memory_working_set_bytes =9.9e7\netcd process_resident_memory_bytes =9e7", manifest: together(0, 1e8)},
			diagnose.Memory, "plane", 0.99, 1, "The plane as a whole ran into its memory limit 30 times a second, and had 94.4 MiB of at most 95.4 MiB"},
		{"a death at the memory limit of the plane", made{manifest: together(0, 1e8), death: "kube-apiserver died (signal: killed, killed at the memory limit of the plane)"},
			diagnose.Memory, "kube-apiserver", 1, 1, "killed at the memory limit of the plane"},
		{"garbage collection", made{series: `
			kube-apiserver process_cpu_seconds_total +1.2
			kube-apiserver go_cpu_classes_idle_cpu_seconds_total +0.8
			kube-apiserver go_cpu_classes_gc_total_cpu_seconds_total +0.84
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +4`},
			diagnose.Memory, "kube-apiserver", 0.55, 0.65, "spent 70 % of the CPU"},
		{"a memory limit that the kernel runs into", made{series: "etcd cgroup_memory_limit_hits_total +30\netcd cgroup_memory_working_set_bytes =9.9e7",
			manifest: limited(record.ComponentFact{Name: "etcd", MemoryLimit: 1e8})},
			diagnose.Memory, "etcd", 0.99, 1, "ran into its memory limit 30 times a second"},
		{"memory near its limit", made{series: "etcd cgroup_memory_working_set_bytes =9.5e7\netcd process_resident_memory_bytes =2e8", manifest: limited(record.ComponentFact{Name: "etcd", MemoryLimit: 1e8})},
			diagnose.Memory, "etcd", 0.49, 0.51, "had 90.6 MiB of at most 95.4 MiB"},
		{"a death at the memory limit", made{death: "kube-apiserver died (signal: killed, killed at its memory limit)"},
			diagnose.Memory, "kube-apiserver", 1, 1, "killed at its memory limit"},
		{"a client's rate limiter, with workers that wait for it", made{series: `
			kube-controller-manager rest_client_rate_limiter_duration_seconds_sum{verb="POST"} +4.9
			kube-controller-manager rest_client_rate_limiter_duration_seconds_count{verb="POST"} +5
			kube-controller-manager rest_client_request_duration_seconds_sum{verb="POST"} +5
			kube-controller-manager workqueue_queue_duration_seconds_sum{name="replicaset"} +9
			kube-controller-manager workqueue_work_duration_seconds_sum{name="replicaset"} +5`,
			manifest: limited(record.ComponentFact{Name: "kube-controller-manager", Args: []string{"--kube-api-qps=5", "--kube-api-burst=10"}})},
			diagnose.ClientThrottle, "kube-controller-manager", 0.99, 1, "qps 5, burst 10"},
		{"a rate limiter that no metric shows", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +0.05
			kube-apiserver apiserver_request_duration_seconds_count{component="apiserver",verb="POST"} +5
			operator rest_client_requests_total{code="201",method="POST"} +5
			operator controller_runtime_max_concurrent_reconciles{controller="queue"} =4
			operator process_cpu_seconds_total +0.1
			operator workqueue_depth{name="queue"} =12
			operator workqueue_queue_duration_seconds_sum{name="queue"} +12
			operator workqueue_unfinished_work_seconds{name="queue"} =0
			operator workqueue_work_duration_seconds_sum{name="queue"} +3.9`},
			diagnose.ClientCeiling, "operator", 0.9, 1, "operator sent a steady 5 requests/s while items waited"},
		{"workers that compute, at a steady rate", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +0.05
			kube-apiserver apiserver_request_duration_seconds_count{component="apiserver",verb="POST"} +5
			operator rest_client_requests_total{code="201",method="POST"} +5
			operator controller_runtime_max_concurrent_reconciles{controller="queue"} =1
			operator process_cpu_seconds_total +0.95
			operator workqueue_depth{name="queue"} =12
			operator workqueue_queue_duration_seconds_sum{name="queue"} +12
			operator workqueue_unfinished_work_seconds{name="queue"} =0
			operator workqueue_work_duration_seconds_sum{name="queue"} +0.97`},
			diagnose.WorkQueue, "operator queue", 0.9, 1, "0.97 of 1 worker busy"},
		{"a rate limiter that a configuration file sets", made{series: `
			kube-scheduler rest_client_rate_limiter_duration_seconds_sum{verb="POST"} +4.9
			kube-scheduler rest_client_rate_limiter_duration_seconds_count{verb="POST"} +5`,
			manifest: limited(record.ComponentFact{Name: "kube-scheduler", Args: []string{"--config=s.yaml", "--kube-api-qps=500"}, Client: &record.ClientLimit{QPS: 5, Burst: 6}})},
			diagnose.ClientThrottle, "kube-scheduler", 0.99, 1, "(qps 5, burst 6)"},
		{"a rate limiter of a configuration file that is not known", made{series: `
			kube-scheduler rest_client_rate_limiter_duration_seconds_sum{verb="POST"} +4.9
			kube-scheduler rest_client_rate_limiter_duration_seconds_count{verb="POST"} +5`,
			manifest: limited(record.ComponentFact{Name: "kube-scheduler", Args: []string{"--config=s.yaml"}})},
			diagnose.ClientThrottle, "kube-scheduler", 0.99, 1, "On average 4.9 requests were queued in the client-side rate limiter of kube-scheduler;"},
		{"the rate limiters of clients for other clusters, which a known setting is not of", made{series: `
			kueue rest_client_rate_limiter_duration_seconds_sum{verb="GET",host="127.0.0.1:1"} +2.4
			kueue rest_client_rate_limiter_duration_seconds_count{verb="GET",host="127.0.0.1:1"} +5
			kueue rest_client_rate_limiter_duration_seconds_sum{verb="GET",host="127.0.0.1:2"} +2.3
			kueue rest_client_rate_limiter_duration_seconds_count{verb="GET",host="127.0.0.1:2"} +4
			kueue rest_client_rate_limiter_duration_seconds_sum{verb="GET",host="127.0.0.1:3"} +0.01
			kueue rest_client_rate_limiter_duration_seconds_count{verb="GET",host="127.0.0.1:3"} +20`,
			manifest: limited(record.ComponentFact{Name: "kueue", Args: []string{"--config=k"}, Client: &record.ClientLimit{QPS: 50, Burst: 100}})},
			diagnose.ClientThrottle, "kueue", 0.99, 1, "On average 4.71 requests were queued in client-side rate limiters of kueue, most of them for 127.0.0.1:1, to which it sent 5 requests/s"},
		{"the rate limiter of the only server, idle for most of the time", made{series: `
			kube-scheduler rest_client_rate_limiter_duration_seconds_sum{verb="POST",host="127.0.0.1:1"} +4.9
			kube-scheduler rest_client_rate_limiter_duration_seconds_count{verb="POST",host="127.0.0.1:1"} +5`,
			manifest: limited(record.ComponentFact{Name: "kube-scheduler", Args: []string{"--kube-api-qps=50"}, Client: &record.ClientLimit{QPS: 50, Burst: 100}})},
			diagnose.ClientThrottle, "kube-scheduler", 0.05, 0.2, "On average 4.9 requests were queued in the client-side rate limiter of kube-scheduler"},
		{"a queue with one worker, whose calls are quick", made{series: `
			kube-controller-manager rest_client_request_duration_seconds_sum{verb="POST"} +0.9
			kube-controller-manager workqueue_queue_duration_seconds_sum{name="namespace"} +9
			kube-controller-manager workqueue_work_duration_seconds_sum{name="namespace"} +0.98`,
			manifest: limited(record.ComponentFact{Name: "kube-controller-manager", Args: []string{"--concurrent-namespace-syncs=1"}})},
			diagnose.WorkQueue, "kube-controller-manager namespace", 0.9, 1, "0.98 of 1 worker busy"},
		{"a queue whose one item is never done", made{series: `
			kube-controller-manager workqueue_depth{name="namespace"} =9
			kube-controller-manager workqueue_unfinished_work_seconds{name="namespace"} +1
			kube-controller-manager workqueue_queue_duration_seconds_sum{name="namespace"} +0
			kube-controller-manager workqueue_work_duration_seconds_sum{name="namespace"} +0`,
			manifest: limited(record.ComponentFact{Name: "kube-controller-manager", Args: []string{"--concurrent-namespace-syncs=1"}})},
			diagnose.WorkQueue, "kube-controller-manager namespace", 0.9, 1, "1 of 1 worker busy"},
		{"workers that wait for clusters far away", made{series: `
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="remote",verb="Get"} +3.9
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="remote",verb="Get"} +50
			app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
			app-controller workqueue_queue_duration_seconds_sum{name="application"} +20
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +3.95
			app-gateway ocm_proxy_proxied_request_duration_seconds_sum{verb="get"} +3.7
			app-gateway ocm_proxy_proxied_request_duration_seconds_count{verb="get"} +50
			app-gateway ocm_proxy_proxied_request_duration_seconds_bucket{verb="get",le="0.06"} +0
			app-gateway ocm_proxy_proxied_request_duration_seconds_bucket{verb="get",le="0.1"} +50
			app-gateway ocm_proxy_proxied_request_duration_seconds_bucket{verb="get",le="+Inf"} +50`},
			diagnose.Distance, "app-controller", 0.9, 0.96, "a call there took 78 ms on average, of which the cluster itself and the way to it took 74 ms"},
		{"one of several gateways", made{series: `
			app-gateway-0 ocm_proxy_proxied_requests_by_cluster_total{cluster="a",code="200"} +90
			app-gateway-1 ocm_proxy_proxied_requests_by_cluster_total{cluster="a",code="200"} +5
			app-gateway-0 process_cpu_seconds_total +0.1
			app-gateway-1 process_cpu_seconds_total +0.01
			app-gateway-2 process_cpu_seconds_total +0.001
			app-gateway-0 cgroup_cpu_periods_total +10
			app-gateway-0 cgroup_cpu_throttled_periods_total +9.5`, manifest: limited(record.ComponentFact{Name: "app-gateway-0", CPULimit: 0.1})},
			diagnose.Imbalance, "app-gateway", 0.55, 0.65, "app-gateway-0 had more to do than the others of its 3 replicas"},
		{"an API server that passes on what other clusters are asked", made{series: `
			kube-apiserver cgroup_cpu_periods_total +10
			kube-apiserver cgroup_cpu_throttled_periods_total +9.5
			kube-apiserver apiserver_request_total{verb="PATCH"} +20
			app-gateway cluster_gateway_requests_total{way="aggregated"} +60`, manifest: limited(record.ComponentFact{Name: "kube-apiserver", CPULimit: 0.2})},
			diagnose.Proxying, "kube-apiserver", 0.68, 0.75, "passed 60 requests a second on to a gateway, beside 20"},
		{"a scan of a cache in every pass", made{series: `
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",verb="ListCache"} +3.5
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",verb="ListCache"} +100
			app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
			app-controller workqueue_queue_duration_seconds_sum{name="application"} +20
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +3.9`},
			diagnose.Scan, "app-controller", 0.85, 0.95, "looked through a whole cache for a few objects: 35 ms each time"},
		{"a scan that fills a CPU limit, while workers wait for answers most of their time", made{series: `
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",verb="ListCache"} +0.7
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",verb="ListCache"} +20
			app-controller process_cpu_seconds_total +0.15
			app-controller cgroup_cpu_periods_total +10
			app-controller cgroup_cpu_throttled_periods_total +8
			app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
			app-controller workqueue_queue_duration_seconds_sum{name="application"} +20
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +3.9`,
			manifest: limited(record.ComponentFact{Name: "app-controller", CPULimit: 0.15})},
			diagnose.Scan, "app-controller", 0.7, 0.76, "35 ms each time"},
		{"a scan that fills a CPU limit by which it is held back all the time", made{series: `
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",kind="ResourceTracker",verb="ListCache"} +1.9
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",kind="ResourceTracker",verb="ListCache"} +70
			app-controller process_cpu_seconds_total +0.29
			app-controller process_cpu_wait_seconds_total +2.1
			app-controller cgroup_cpu_periods_total +10
			app-controller cgroup_cpu_throttled_periods_total +10
			app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
			app-controller workqueue_queue_duration_seconds_sum{name="application"} +0.1
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +2.1`,
			manifest: limited(record.ComponentFact{Name: "app-controller", CPULimit: 0.3})},
			diagnose.Scan, "app-controller", 0.78, 0.81, "looked through a whole cache of kind ResourceTracker for a few objects: 27.1 ms each time"},
		{"a CPU limit that is filled by what workers do beside short scans", made{series: `
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",kind="ResourceTracker",verb="ListCache"} +0.15
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",kind="ResourceTracker",verb="ListCache"} +28
			app-controller process_cpu_seconds_total +0.14
			app-controller process_cpu_wait_seconds_total +2.2
			app-controller cgroup_cpu_periods_total +10
			app-controller cgroup_cpu_throttled_periods_total +9
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +3.9`,
			manifest: limited(record.ComponentFact{Name: "app-controller", CPULimit: 0.15})},
			diagnose.CPULimit, "app-controller", 0.85, 0.88, "its CPU limit in 90 % of the periods"},
		{"a CPU limit that one worker wants for a scan, and three for other things", made{series: `
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",kind="ResourceTracker",verb="ListCache"} +1
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",kind="ResourceTracker",verb="ListCache"} +40
			app-controller process_cpu_seconds_total +0.29
			app-controller process_cpu_wait_seconds_total +1.7
			app-controller cgroup_cpu_periods_total +10
			app-controller cgroup_cpu_throttled_periods_total +10
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +4`,
			manifest: limited(record.ComponentFact{Name: "app-controller", CPULimit: 0.3})},
			diagnose.CPULimit, "app-controller", 0.74, 0.76, "its CPU limit in 100 % of the periods"},
		{"a scan of one kind beside quick looks at another", made{series: `
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",kind="ResourceTracker",verb="ListCache"} +3.5
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",kind="ResourceTracker",verb="ListCache"} +100
			app-controller kubevela_controller_client_request_time_seconds_sum{cluster="local",kind="ApplicationRevision",verb="ListCache"} +0.01
			app-controller kubevela_controller_client_request_time_seconds_count{cluster="local",kind="ApplicationRevision",verb="ListCache"} +5000
			app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
			app-controller workqueue_queue_duration_seconds_sum{name="application"} +20
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +3.9`},
			diagnose.Scan, "app-controller", 0.85, 0.95, "a whole cache of kind ResourceTracker for a few objects: 35 ms each time"},
		{"a stage of what busy workers do", made{series: `
			app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
			app-controller workqueue_queue_duration_seconds_sum{name="application"} +20
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +3.9
			app-controller application_reconcile_time_seconds_sum{begin_phase="running"} +3.9
			app-controller kubevela_app_reconcile_time_seconds_sum{stage="gc-rt"} +1
			app-controller kubevela_app_reconcile_time_seconds_sum{stage="gc-rt.mark"} +3.8
			app-controller kubevela_app_reconcile_time_seconds_sum{stage="state-keep"} +2.5`},
			diagnose.Stage, "app-controller", 0.6, 0.66, "64 % went into stage state-keep"},
		{"workers with many stages, none of which is most of it", made{series: `
			app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
			app-controller workqueue_queue_duration_seconds_sum{name="application"} +20
			app-controller workqueue_unfinished_work_seconds{name="application"} =0
			app-controller workqueue_work_duration_seconds_sum{name="application"} +3.9
			app-controller application_reconcile_time_seconds_sum{begin_phase="running"} +3.9
			app-controller kubevela_app_reconcile_time_seconds_sum{stage="gc-rt"} +1.5
			app-controller kubevela_app_reconcile_time_seconds_sum{stage="state-keep"} +1.9`},
			diagnose.WorkQueue, "app-controller application", 0.9, 1, ""},
		{"memory of a controller that caches revisions", made{series: `
			app-controller cgroup_memory_working_set_bytes =9.9e7
			app-controller process_resident_memory_bytes =9.9e7
			app-controller application_reconcile_time_seconds_sum{begin_phase="running"} +1
			app-controller kubevela_app_reconcile_time_seconds_sum{stage="state-keep"} +0.4
			kube-apiserver apiserver_resource_objects{group="core.oam.dev",resource="applicationrevisions"} =9000`,
			manifest: limited(record.ComponentFact{Name: "app-controller", MemoryLimit: 1e8})},
			diagnose.Memory, "app-controller", 0.85, 0.95, "had 94.4 MiB of at most 95.4 MiB"},
		{"a tiny priority level", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +10
			kube-apiserver apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",priority_level="tiny"} +9.8
			kube-apiserver apiserver_flowcontrol_current_limit_seats{priority_level="tiny"} =1`},
			diagnose.APF, "kube-apiserver", 0.9, 1, "level tiny kept 9.8 requests waiting at a time for its seats, of which it had 1."},
		{"a priority level that rejects", made{series: `
			kube-apiserver apiserver_flowcontrol_rejected_requests_total{priority_level="workload-low",reason="queue-full"} +60`},
			diagnose.APF, "kube-apiserver", 0.7, 0.8, "rejected 75 % of all"},
		{"a slow webhook that keeps the seats taken", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +10
			kube-apiserver apiserver_flowcontrol_request_wait_duration_seconds_sum{execute="true",priority_level="workload-low"} +5.8
			kube-apiserver apiserver_admission_webhook_admission_duration_seconds_sum{name="slow",operation="CREATE"} +4
			kube-apiserver apiserver_admission_webhook_admission_duration_seconds_count{name="slow",operation="CREATE"} +20`},
			diagnose.Webhook, "slow", 0.35, 0.45, "200 ms for each request"},
		{"etcd's disk, by its use", made{series: `
			etcd etcd_disk_wal_fsync_duration_seconds_sum +0.97
			etcd etcd_disk_wal_fsync_duration_seconds_count +500`},
			diagnose.EtcdDisk, "etcd", 0.84, 0.86, "synced its log for 97 % of the time"},
		{"etcd's disk, by what writes wait for", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +2.2
			kube-apiserver etcd_request_duration_seconds_sum{operation="create"} +2.1
			kube-apiserver etcd_request_duration_seconds_bucket{operation="create",le="0.005"} +0
			kube-apiserver etcd_request_duration_seconds_bucket{operation="create",le="0.1"} +0
			kube-apiserver etcd_request_duration_seconds_bucket{operation="create",le="0.11"} +20
			etcd etcd_disk_wal_fsync_duration_seconds_sum +0.7
			etcd etcd_disk_wal_fsync_duration_seconds_count +7`},
			diagnose.EtcdDisk, "etcd", 0.7, 0.95, "(100 ms each)"},
		{"a way to etcd that is long", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +2.2
			kube-apiserver etcd_request_duration_seconds_sum{operation="create"} +2.1
			kube-apiserver etcd_request_duration_seconds_bucket{operation="create",le="0.005"} +0
			kube-apiserver etcd_request_duration_seconds_bucket{operation="create",le="0.1"} +0
			kube-apiserver etcd_request_duration_seconds_bucket{operation="create",le="0.11"} +20`},
			diagnose.EtcdLatency, "etcd", 0.7, 0.95, "of which its disk took 1 ms"},
		{"etcd near its quota", made{series: "etcd etcd_mvcc_db_total_size_in_bytes =1.9e9"}, diagnose.EtcdQuota, "etcd", 0.74, 0.76, "95 % of its quota"},
		{"a watch cache that lags", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +3
			kube-apiserver apiserver_watch_cache_read_wait_seconds_sum{resource="pods"} +2
			kube-apiserver apiserver_watch_cache_read_wait_seconds_count{resource="pods"} +4`},
			diagnose.WatchCache, "kube-apiserver", 0.5, 0.6, "500 ms on average"},
		{"locks", made{series: `
			kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +3
			kube-apiserver go_sync_mutex_wait_total_seconds_total +2`},
			diagnose.Locks, "kube-apiserver", 0.6, 0.7, "2 goroutines waited for locks"},
		{"the scheduler's algorithm", made{series: `
			kube-scheduler scheduler_scheduling_algorithm_duration_seconds_sum +0.9
			kube-scheduler scheduler_pending_pods{queue="active"} =300`},
			diagnose.Scheduler, "kube-scheduler", 0.85, 0.95, "90 ms for each pod, while 300 pods waited"},
		{"the scheduler's algorithm, by plugin", made{series: `
			kube-scheduler scheduler_scheduling_algorithm_duration_seconds_sum +0.9
			kube-scheduler scheduler_plugin_execution_duration_seconds_sum{extension_point="PreScore",plugin="PodTopologySpread"} +0.06
			kube-scheduler scheduler_plugin_execution_duration_seconds_sum{extension_point="Score",plugin="NodeResourcesFit"} +0.02
			kube-scheduler scheduler_plugin_execution_duration_seconds_sum{extension_point="Bind",plugin="DefaultBinder"} +0.5
			kube-scheduler scheduler_pending_pods{queue="active"} =300`},
			diagnose.Scheduler, "kube-scheduler", 0.85, 0.95, "75 % went into PreScore of PodTopologySpread"},
		{"a late load generator", made{late: map[string]time.Duration{"load": time.Second}}, diagnose.LoadLate, "windtunnel", 0.75, 0.95, "1,100 of its 1,100 calls"},
		{"a late fleet", made{late: map[string]time.Duration{"fleet": time.Second}}, diagnose.FleetLate, "windtunnel", 0.75, 0.95, "1,100 of its 1,100 calls"},
		{"a full machine", made{series: `
			host host_cpu_seconds_total{mode="idle"} +0
			host host_cpu_seconds_total{mode="user"} +2
			kube-apiserver process_cpu_seconds_total +1.2`},
			diagnose.Machine, "", 0.95, 1, "most of it was used by kube-apiserver (1.20 cores)"},
	} {
		got := c.made.fly(t)
		if len(got) == 0 {
			t.Errorf("%s: nothing was found", c.what)
			continue
		}
		first := got[0]
		if first.Cause != c.cause || first.Component != c.component {
			t.Errorf("%s: %s comes first, %+v", c.what, first.Cause, got)
			continue
		}
		if first.Score < c.low || first.Score > c.high || !strings.Contains(first.Sentence, c.says) {
			t.Errorf("%s: score %v, want %v to %v; %q lacks %q", c.what, first.Score, c.low, c.high, first.Sentence, c.says)
		}
		sane(t, c.what, got)
	}
}

// TestAdviceOfStages holds what is to be done about a stage, and about memory that
// revisions take.
func TestAdviceOfStages(t *testing.T) {
	const busy = `
		app-controller controller_runtime_max_concurrent_reconciles{controller="application"} =4
		app-controller workqueue_queue_duration_seconds_sum{name="application"} +20
		app-controller workqueue_unfinished_work_seconds{name="application"} =0
		app-controller workqueue_work_duration_seconds_sum{name="application"} +3.9
		app-controller application_reconcile_time_seconds_sum{begin_phase="running"} +3.9
		app-controller kubevela_app_reconcile_time_seconds_sum{stage="STAGE"} +3`
	for stage, want := range map[string]string{
		"state-keep": "--max-dispatch-concurrent", "apply-apprev": "--skip-equal-revision", "gc-rt": "--gc-passes=1", "generate-app-steps": "smaller templates",
		"execute-workflow": "dry run", "apply-policies": "less often, or in parallel",
	} {
		got := made{series: strings.ReplaceAll(busy, "STAGE", stage)}.fly(t)
		if len(got) == 0 || got[0].Cause != diagnose.Stage || !strings.Contains(got[0].Try, want) || !strings.HasSuffix(got[0].Try, "Or give queue application more workers than 4.") {
			t.Errorf("%s: %+v, want %q", stage, got, want)
		}
	}
	got := made{series: `
		app-controller cgroup_memory_working_set_bytes =9.9e7
		app-controller process_resident_memory_bytes =9.9e7
		app-controller application_reconcile_time_seconds_sum{begin_phase="running"} +1
		app-controller kubevela_app_reconcile_time_seconds_sum{stage="state-keep"} +0.4
		kube-apiserver apiserver_resource_objects{group="core.oam.dev",resource="applicationrevisions"} =9000`,
		manifest: limited(record.ComponentFact{Name: "app-controller", MemoryLimit: 1e8})}.fly(t)
	if len(got) == 0 || !strings.Contains(got[0].Try, "It cached 9,000 revisions: keep fewer of each application (--application-revision-limit)") {
		t.Errorf("%+v", got)
	}
}

// A death at the memory limit is told once, with what was measured until then: how
// much of the limit was taken, and the revisions that took it, by the API server's count
// or, before it has counted, by the controller's own.
func TestAKillNamesWhatFilledTheMemory(t *testing.T) {
	const name, full = "app-controller", `
		app-controller cgroup_memory_working_set_bytes =9.9e7
		app-controller process_resident_memory_bytes =9.9e7
		app-controller kubevela_controller_client_request_time_seconds_count{kind="ApplicationRevision",verb="Create"} =150`
	for what, c := range map[string]struct {
		series string
		cached string
		count  float64
	}{
		"counted by the API server": {"\nkube-apiserver apiserver_resource_objects{group=\"core.oam.dev\",resource=\"applicationrevisions\"} =9000", "9,000", 9000},
		"not counted yet":           {"\nkube-apiserver apiserver_resource_objects{group=\"core.oam.dev\",resource=\"applicationrevisions\"} =0", "150", 150},
		"deleted in part":           {"\napp-controller kubevela_controller_client_request_time_seconds_count{kind=\"ApplicationRevision\",verb=\"Delete\"} =30", "120", 120},
	} {
		got := made{series: full + c.series, manifest: limited(record.ComponentFact{Name: name, MemoryLimit: 1e8}),
			death: name + " died (signal: killed, killed at its memory limit)", dies: name}.fly(t)
		if len(got) != 1 || got[0].Cause != diagnose.Memory || got[0].Component != name || got[0].Score != 1 {
			t.Errorf("%s: %+v", what, got)
			continue
		}
		if !strings.Contains(got[0].Sentence, "killed at its memory limit") || !strings.Contains(got[0].Try, "It cached "+c.cached+" revisions: keep fewer of each application") {
			t.Errorf("%s: %q, %q", what, got[0].Sentence, got[0].Try)
		}
		var values []float64
		for _, e := range got[0].Evidence {
			values = append(values, e.Value)
		}
		if want := []float64{1e8, 9.9e7, c.count, 9.9e7}; !slices.Equal(values, want) {
			t.Errorf("%s: evidence of %v, want %v: %+v", what, values, want, got[0].Evidence)
		}
		sane(t, what, got)
	}
}

// sane holds for every list of findings.
func sane(t *testing.T, what string, all []diagnose.Finding) {
	t.Helper()
	for i, f := range all {
		if f.Rank != i+1 || f.Score < 0 || f.Score > 1 || f.Score == 0 && f.Cause != diagnose.Nothing || i > 0 && f.Score > all[i-1].Score {
			t.Errorf("%s: finding %d has rank %d and score %v", what, i, f.Rank, f.Score)
		}
		if f.Try == "" || !strings.HasSuffix(f.Sentence, ".") || len(f.Evidence) == 0 {
			t.Errorf("%s: %+v", what, f)
		}
		for _, e := range f.Evidence {
			if e.Sentence == "" || e.Unit == "" || math.IsNaN(e.Value) || (e.Expr == "") != (e.At == nil) || strings.Contains(e.Expr, "$") {
				t.Errorf("%s: evidence %+v", what, e)
			}
		}
	}
	if _, err := json.Marshal(all); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// A full machine explains what computes, and leaves the first place to what no
// core would have shortened.
func TestTimersComeBeforeAFullMachine(t *testing.T) {
	const full = "\nhost host_cpu_seconds_total{mode=\"idle\"} +0\nhost host_cpu_seconds_total{mode=\"user\"} +2\n"
	for what, c := range map[string]struct {
		series string
		first  diagnose.Cause
	}{
		"a rate limiter": {"kube-controller-manager rest_client_rate_limiter_duration_seconds_sum{verb=\"POST\"} +0.8\n" +
			"kube-controller-manager rest_client_rate_limiter_duration_seconds_count{verb=\"POST\"} +20", diagnose.ClientThrottle},
		"a queue": {`kube-controller-manager workqueue_queue_duration_seconds_sum{name="namespace"} +9
			kube-controller-manager workqueue_work_duration_seconds_sum{name="namespace"} +0.98`, diagnose.Machine},
	} {
		got := made{series: full + c.series}.fly(t)
		if got[0].Cause != c.first {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// The machine that windtunnel runs on is not that of a plane elsewhere: it explains
// windtunnel's own lateness, and nothing of the plane.
func TestAPlaneElsewhere(t *testing.T) {
	const full = `
		host host_cpu_seconds_total{mode="idle"} +0
		host host_cpu_seconds_total{mode="user"} +2
		windtunnel process_cpu_wait_seconds_total +0.1
		kube-apiserver apiserver_request_duration_seconds_sum{component="apiserver",verb="POST"} +3
		kube-apiserver go_sync_mutex_wait_total_seconds_total +2`
	got := made{series: full, manifest: record.Manifest{Plane: record.PlaneFacts{Kind: "kubeconfig"}}}.fly(t)
	if len(got) != 2 || got[0].Cause != diagnose.Locks || got[0].Score < 0.6 || got[1].Component != "windtunnel" || !strings.Contains(got[1].Sentence, "windtunnel's own machine") {
		t.Errorf("%+v", got)
	}
}

// A run that was cut off before its first step has no window; it says so by
// saying nothing.
func TestARunThatNeverBegan(t *testing.T) {
	if got := diagnose.Findings(&diagnose.Facts{}); len(got) != 0 || got == nil {
		t.Errorf("%v", got)
	}
}

// The expression of each piece of evidence gives its value when it is asked again
// at its time: that is what it is there for.
func TestEvidenceCanBeChecked(t *testing.T) {
	f, db := made{series: slowServer}.facts(t)
	checked := 0
	for _, finding := range diagnose.Findings(f) {
		for _, e := range finding.Evidence {
			if e.Expr == "" {
				continue
			}
			r := repotest.Must(db.Instant(t.Context(), e.Expr, db.Moment(*e.At)))(t)
			found := false
			for _, s := range r.Series {
				same := true
				for _, l := range s.Labels {
					same = same && e.Labels[l.Name] == l.Value
				}
				found = found || same && math.Abs(s.Points[0].Value-e.Value) < 0.001*math.Abs(e.Value)+1e-9
			}
			if !found {
				t.Errorf("%s: %s is %v, not %v", finding.Cause, e.Expr, r.Series, e.Value)
			}
			if len(e.Values) != f.Window.Slices {
				t.Errorf("%s: %d values for %d slices", finding.Cause, len(e.Values), f.Window.Slices)
			}
			checked++
		}
	}
	if checked < 5 {
		t.Errorf("only %d pieces of evidence", checked)
	}
}

// A series that appears within the window is counted from nothing, which PromQL's
// increase does not do.
func TestWhatAppearsIsCounted(t *testing.T) {
	f, _ := made{series: `kube-controller-manager rest_client_rate_limiter_duration_seconds_sum{verb="DELETE"} *1
		kube-controller-manager rest_client_rate_limiter_duration_seconds_count{verb="DELETE"} *10`}.facts(t)
	if got := diagnose.Findings(f); len(got) == 0 || got[0].Cause != diagnose.ClientThrottle || got[0].Score < 0.9 {
		t.Errorf("%+v", got)
	}
}

// What a configuration file sets is raised there: a flag beside it is ignored.
func TestConfigFileIsNamed(t *testing.T) {
	for name, args := range map[string][]string{
		"one word":              {"--config=s.yaml"},
		"two words":             {"--config", "s.yaml"},
		"one dash":              {"-config=s.yaml"},
		"beside its own limits": {"--kube-api-qps=5", "--kube-api-burst=5", "--config=s.yaml"},
	} {
		f, _ := made{series: `kube-scheduler rest_client_rate_limiter_duration_seconds_sum{verb="POST"} +4.9
		kube-scheduler rest_client_rate_limiter_duration_seconds_count{verb="POST"} +5`,
			manifest: limited(record.ComponentFact{Name: "kube-scheduler", Args: args, Client: &record.ClientLimit{QPS: 5, Burst: 5}})}.facts(t)
		got := diagnose.Findings(f)
		if len(got) == 0 || !strings.Contains(got[0].Try, "clientConnection.qps") || strings.Contains(got[0].Try, "--kube-api-qps") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
