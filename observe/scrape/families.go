package scrape

import (
	"slices"
	"strings"
)

// Families lists the metric families that the SLIs of package slo and the
// diagnosis of what gave way first need, and no more: a seventh of what a plane
// of stock components serves. A name that ends in * stands for all that begin so.
func Families() []string {
	return slices.Concat(serverFamilies(), storageFamilies(), clientFamilies(), runtimeFamilies())
}

// serverFamilies are what kube-apiserver says of its callers.
func serverFamilies() []string {
	return []string{
		// kube-apiserver: what callers wait for. The sli histogram leaves out
		// webhooks and queueing and is what the official objectives are about;
		// request_total tells availability and agrees with our own counts.
		"apiserver_request_sli_duration_seconds",
		"apiserver_request_total",
		"apiserver_request_aborts_total",
		"apiserver_request_terminations_total",
		"apiserver_request_timestamp_comparison_time",
		"apiserver_current_inflight_requests",
		"apiserver_longrunning_requests",
		"apiserver_watch_list_duration_seconds",
		"apiserver_tls_handshake_errors_total",

		// Priority and fairness: who queues, for how long, who is turned away.
		"apiserver_flowcontrol_rejected_requests_total",
		"apiserver_flowcontrol_dispatched_requests_total",
		"apiserver_flowcontrol_current_inqueue_requests",
		"apiserver_flowcontrol_current_executing_requests",
		"apiserver_flowcontrol_current_executing_seats",
		"apiserver_flowcontrol_current_limit_seats",
		"apiserver_flowcontrol_nominal_limit_seats",
		"apiserver_flowcontrol_request_wait_duration_seconds",

		// Watches and the watch cache: events, sizes, watchers that were cut off
		// for being slow, how far the cache is behind etcd.
		"apiserver_watch_events_total",
		"apiserver_watch_events_sizes_sum",
		"apiserver_watch_cache_events_dispatched_total",
		"apiserver_watch_cache_events_received_total",
		"apiserver_watch_cache_initializations_total",
		"apiserver_watch_cache_read_wait_seconds",
		"apiserver_watch_cache_resource_version",
		"apiserver_terminated_watchers_total",
		"apiserver_init_events_total",

		// Admission and webhooks.
		"apiserver_admission_step_admission_duration_seconds",
		"apiserver_admission_webhook_admission_duration_seconds",
		"apiserver_admission_webhook_rejection_count",
	}
}

// storageFamilies are what kube-apiserver and etcd say of storage.
func storageFamilies() []string {
	return []string{
		// Storage as the API server sees it.
		"apiserver_storage_objects",
		"apiserver_resource_objects",
		"apiserver_resource_size_estimate_bytes",
		"apiserver_storage_size_bytes",
		"etcd_request_duration_seconds",
		"etcd_requests_total",
		"etcd_request_errors_total",

		// etcd itself.
		"etcd_disk_wal_fsync_duration_seconds",
		"etcd_disk_backend_commit_duration_seconds",
		"etcd_mvcc_db_total_size_in_bytes",
		"etcd_mvcc_db_total_size_in_use_in_bytes",
		"etcd_server_quota_backend_bytes",
		"etcd_server_leader_changes_seen_total",
		"etcd_server_proposals_pending",
		"etcd_server_proposals_failed_total",
		"etcd_server_slow_apply_total",
		"etcd_debugging_mvcc_current_revision",
		"etcd_debugging_mvcc_slow_watcher_total",
		"etcd_debugging_mvcc_pending_events_total",
		"etcd_debugging_mvcc_db_compaction_total_duration_milliseconds",
		"etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds",
	}
}

// clientFamilies are what controllers and the scheduler say of their work.
func clientFamilies() []string {
	return []string{
		// Controllers: the queues of kube-controller-manager, of operators built
		// with controller-runtime, and how long each object takes.
		"workqueue_*",
		"controller_runtime_reconcile_total",
		"controller_runtime_reconcile_errors_total",
		"controller_runtime_reconcile_time_seconds",
		"controller_runtime_active_workers",
		"controller_runtime_max_concurrent_reconciles",
		"controller_runtime_webhook_latency_seconds",

		// Clients that wait for their own rate limiter, and what they are told.
		"rest_client_rate_limiter_duration_seconds",
		"rest_client_requests_total",
		"rest_client_request_retries_total",

		// kube-scheduler.
		"scheduler_schedule_attempts_total",
		"scheduler_scheduling_attempt_duration_seconds",
		"scheduler_scheduling_algorithm_duration_seconds",
		"scheduler_pod_scheduling_sli_duration_seconds",
		"scheduler_pod_scheduling_attempts",
		"scheduler_pending_pods",
		"scheduler_queue_incoming_pods_total",
		"scheduler_unschedulable_pods",
		"scheduler_preemption_attempts_total",
		"scheduler_cache_size",
	}
}

// runtimeFamilies are what every component says of itself.
func runtimeFamilies() []string {
	return []string{
		// The Go runtime and leader election of every component.
		"go_goroutines",
		"go_gc_duration_seconds_sum",
		"go_gc_duration_seconds_count",
		"go_memstats_heap_alloc_bytes",
		"go_memstats_heap_inuse_bytes",
		"go_memstats_heap_sys_bytes",
		"go_memstats_sys_bytes",
		"go_memstats_next_gc_bytes",
		"go_memstats_alloc_bytes_total",
		"go_gc_gogc_percent",
		"go_gc_gomemlimit_bytes",
		"go_sched_gomaxprocs_threads",
		"process_start_time_seconds",
		"process_open_fds",
		"leader_election_master_status",
	}
}

// processFamilies are what a process says of itself; see Target.Process.
func processFamilies() []string {
	return []string{"process_cpu_seconds_total", "process_resident_memory_bytes"}
}

// accepts returns a test for the names of points to keep.
func accepts(o Options, process bool) func(name string) bool {
	keep, drop := newFilter(o.Keep), newFilter(o.Drop)
	usage := newFilter(processFamilies())
	return func(name string) bool {
		if usage.has(name) {
			return process && !drop.has(name)
		}
		return (len(o.Keep) == 0 || keep.has(name)) && !drop.has(name)
	}
}

// filter holds names of families.
type filter struct {
	exact    map[string]bool // names of points
	prefixes []string
}

func newFilter(families []string) filter {
	f := filter{exact: map[string]bool{}}
	for _, family := range families {
		if p, ok := strings.CutSuffix(family, "*"); ok {
			f.prefixes = append(f.prefixes, p)
			continue
		}
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			f.exact[family+suffix] = true
		}
	}
	return f
}

// has says whether a point is one of the families: of their own name, or of one
// that points of a histogram have.
func (f filter) has(name string) bool {
	return f.exact[name] || slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
