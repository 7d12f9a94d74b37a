package sli

// sig is where the scalability special interest group defines its indicators.
const sig = "https://github.com/kubernetes/community/tree/master/sig-scalability/slos/"

// reference is where Kubernetes lists its metrics.
const reference = "https://kubernetes.io/docs/reference/instrumentation/metrics/"

// audited is where indicators of clients are read.
const audited = "the API server's audit log"

// showP99 is what most indicators of durations show.
func showP99() []string { return []string{"p99"} }

// callIndicators are the indicators of API calls, as their server and as a client sees them.
func callIndicators() []Indicator {
	return []Indicator{
		// slos/api_call_latency.md: the server's own duration without webhooks and queues, which the definition leaves out.
		{Name: "server-latency", Unit: "seconds", Text: "kube-apiserver's own request duration, without webhooks and queues, from its histograms",
			Source: sig + "api_call_latency.md", Labels: callLabels(), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "apiserver_request_sli_duration_seconds", Calls: true,
			Where: []Match{{Label: "verb", Pattern: "WATCH|CONNECT", Not: true}}},
		// The whole duration in the server, of which the one above leaves parts out.
		{Name: "request-latency", Unit: "seconds", Text: "the whole request duration in kube-apiserver, with webhooks and the wait in priority and fairness queues",
			Source: reference, Labels: callLabels(), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "apiserver_request_duration_seconds", Calls: true,
			Where: []Match{{Label: "verb", Pattern: "WATCH|CONNECT", Not: true}}, Shown: showP99()},
		// Our own: open loop, so that a stalled server's waiting calls count (docs/background/measurement.md, rule 1).
		{Name: "call-latency", Unit: "seconds", Text: "from the moment when a call of the load was due to its answer",
			Source: "windtunnel's own calls", Labels: ownCallLabels(), Statistics: distributionStatistics()},
		{Name: "call-success", Unit: "ratio", Text: "calls of the load that were answered with success, as a share of all that were due",
			Source: "windtunnel's own calls", Labels: ownCallLabels(), Statistics: []string{"mean"}, Shown: []string{"mean"}},
		// OpenShift counts such seconds in upgrades; a gap is known to the time between two calls.
		{Name: "call-unavailability", Unit: "seconds", Text: "time in which calls of the load were not served: from the moment when the first call was due that has no answer, an answer of 429 or of 500 and above, or an answer after more than 1 s, to the answer to the next call that was served; max is the longest such gap, sum all of them. A probe is a step with 10 requests per second; connection: `new` are calls of steps with `connection: new`, which open a connection each, `kept` all others",
			Source: "windtunnel's own calls", Labels: ownCallLabels(), Statistics: []string{"max", "sum"}},
		{Name: "call-outages", Unit: "outages", Text: "number of the gaps of call-unavailability",
			Source: "windtunnel's own calls", Labels: ownCallLabels(), Statistics: []string{"count"}},
		// The rules are those of package consistency: no search is needed where each write has a value and a version of its own.
		{Name: "write-violations", Unit: "violations", Text: "answers to a `probe` step that no plane may give; rule: lost, an acknowledged write is not in a final list; invented, a value that nobody wrote or whose write was refused; doubled, a write done twice; unordered, a later write without a greater version; stale, a read without what was acknowledged before it was sent; missed, a change that a watch did not bring, or brought late or twice; diverged, API servers with different final lists",
			Source: "windtunnel's own calls and watches", Labels: map[string][]string{"step": nil, "rule": {"lost", "invented", "doubled", "unordered", "stale", "missed", "diverged"}}, Statistics: []string{"count"}},
		{Name: "unknown-writes", Unit: "writes", Text: "writes of a `probe` step without an answer, or with one of 500 and above: the plane may or may not have done them",
			Source: "windtunnel's own calls", Labels: anyLabels("step"), Statistics: []string{"count"}},
		{Name: "failed-calls", Unit: "calls", Text: "calls of the load that failed for good: refused, never sent or without an answer, not sent again, and with a code that their step does not expect",
			Source: "windtunnel's own calls", Labels: callLabels("step", "cluster"), Statistics: []string{"count"}},
		// slos/api_availability.md asks a probe; kubernetes-mixin's availability rule counts answers of 500 and above, which this does.
		{Name: "api-availability", Unit: "ratio", Text: "requests that kube-apiserver did not answer with a status of 500 and above, as a share of all",
			Source: "https://github.com/kubernetes-monitoring/kubernetes-mixin (availability)", Labels: callLabels(), Statistics: []string{"mean"},
			Kind: Share, Family: "apiserver_request_total", Calls: true, Where: []Match{{Label: "code", Pattern: "5..", Not: true}}, Shown: []string{"mean"}},
		{Name: "requests-by-server", Unit: "requests", Text: "requests that each API server process answered, one result for each: the least and the most loaded of several servers are the lowest and the highest",
			Source: reference, Labels: anyLabels(Component), Per: []string{Component}, Statistics: rateStatistics(),
			Kind: Counter, Family: "apiserver_request_total"},
		{Name: "apf-wait", Unit: "seconds", Text: "time that requests waited in queues of API priority and fairness",
			Source: reference, Labels: oneOf(anyLabels("priority_level", "flow_schema"), "execute", "true", "false"), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "apiserver_flowcontrol_request_wait_duration_seconds", Shown: showP99()},
		{Name: "apf-queued", Unit: "requests", Text: "requests that wait in queues of API priority and fairness",
			Source: reference, Labels: anyLabels("priority_level", "flow_schema"), Statistics: levelStatistics(),
			Kind: Gauge, Family: "apiserver_flowcontrol_current_inqueue_requests", Shown: []string{"max"}},
		{Name: "apf-rejected", Unit: "requests", Text: "requests that API priority and fairness refused",
			Source: reference, Labels: oneOf(anyLabels("priority_level", "flow_schema"), "reason", "queue-full", "concurrency-limit", "time-out", "cancelled"), Statistics: []string{"sum", "rate", "max"},
			Kind: Counter, Family: "apiserver_flowcontrol_rejected_requests_total", Shown: []string{"sum"}},
		{Name: "admission-latency", Unit: "seconds", Text: "time that admission plugins took for one request",
			Source: reference, Labels: admissionLabels("admit", "validate"), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "apiserver_admission_controller_admission_duration_seconds", Shown: showP99()},
		{Name: "webhook-latency", Unit: "seconds", Text: "time that admission webhooks took for one request",
			Source: reference, Labels: admissionLabels("admit", "validating"), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "apiserver_admission_webhook_admission_duration_seconds", Shown: showP99()},
		{Name: "webhook-rejections", Unit: "requests", Text: "requests that admission webhooks refused, or that failed for a webhook",
			Source: reference, Labels: oneOf(admissionLabels("admit", "validating"), "error_type", "calling_webhook_error", "apiserver_internal_error", "no_error"), Statistics: []string{"sum", "rate", "max"},
			Kind: Counter, Family: "apiserver_admission_webhook_rejection_count", Shown: []string{"sum"}},
	}
}

// podIndicators are the indicators of pods, namespaces and the scheduler.
func podIndicators() []Indicator {
	return []Indicator{
		// slos/pod_startup_latency.md and slos/stateful_pod_startup_latency.md, by receipt times in place of whole seconds.
		{Name: "pod-startup", Unit: "seconds", Text: "from one phase of a pod to a later one, by the receipt times of windtunnel's own watch",
			Source: sig + "pod_startup_latency.md", Labels: map[string][]string{"group": nil, "cluster": nil, "phase": StartupPhases(), "state": {"stateless", "stateful"}},
			Statistics: distributionStatistics()},
		{Name: "lifecycle", Unit: "seconds", Text: "from one phase of an object of `lifecycles` to another (phase: FROM..TO, any of its phases, created, deleting, deleted), by the receipt times of windtunnel's own watches; lifecycle: pod needs no entry in lifecycles",
			Source: "windtunnel's own watches", Labels: anyLabels("lifecycle", "phase", "group", "cluster"), Statistics: distributionStatistics()},
		{Name: "pods-running-rate", Unit: "1/s", Text: "pods that came to run per second, from the first one created to the last one running",
			Source: "windtunnel's own watch", Labels: anyLabels("group", "cluster"), Statistics: []string{"mean"}},
		// ClusterLoader2's SchedulingThroughput: bound pods per second in windows of 5 s.
		{Name: "pods-bound-rate", Unit: "1/s", Text: "pods bound per second in each stretch of `window` (a time, default 5s), from the first one created to the last one bound",
			Source: "https://github.com/kubernetes/perf-tests (SchedulingThroughput)", Labels: anyLabels("group", "window", "cluster"), Statistics: []string{"max", "mean", "p50", "p90", "p99"}},
		{Name: "pod-deletion", Unit: "seconds", Text: "from a pod's deletion timestamp seen to its deletion, by receipt on windtunnel's own watch",
			Source: "windtunnel's own watch", Labels: anyLabels("group", "cluster"), Statistics: distributionStatistics()},
		{Name: "namespace-deletion", Unit: "seconds", Text: "from a namespace's deletion timestamp seen to its deletion, where lifecycles of namespaces are observed",
			Source: "windtunnel's own watch", Labels: anyLabels("cluster"), Statistics: distributionStatistics(), Shown: showP99()},
		{Name: "scheduling-latency", Unit: "seconds", Text: "from a pod's entry into the scheduler's queue to its binding, without the time for which it could not be scheduled",
			Source: reference, Labels: anyLabels("attempts"), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "scheduler_pod_scheduling_sli_duration_seconds", Shown: showP99()},
		{Name: "scheduling-attempt", Unit: "seconds", Text: "one attempt of the scheduler to find a node, and to bind",
			Source: reference, Labels: oneOf(anyLabels("profile"), "result", "scheduled", "unschedulable", "error"), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "scheduler_scheduling_attempt_duration_seconds", Shown: showP99()},
		{Name: "scheduling-rate", Unit: "pods", Text: "pods that the scheduler placed, by its own count",
			Source: reference, Labels: anyLabels("profile"), Statistics: rateStatistics(),
			Kind: Counter, Family: "scheduler_schedule_attempts_total", Where: []Match{{Label: "result", Pattern: "scheduled"}}, Shown: []string{"rate"}},
		{Name: "pods-pending", Unit: "pods", Text: "pods that wait for the scheduler",
			Source: reference, Labels: oneOf(anyLabels(), "queue", "active", "backoff", "unschedulable", "gated"), Statistics: levelStatistics(), Kind: Gauge, Family: "scheduler_pending_pods", Shown: []string{"max"}},
	}
}

// watchIndicators are the indicators of watches and of the cache behind them.
func watchIndicators() []Indicator {
	const informers = "windtunnel's own informers"
	return []Indicator{
		// slos/watch_latency.md asks from the store to ready to be sent; a client sees from a change that the store shows to its receipt.
		{Name: "watch-latency", Unit: "seconds", Text: "by how much events on windtunnel's own watches came later than a list that knew of their change; the most of each sample",
			Source: sig + "watch_latency.md, as a client sees it", Labels: anyLabels("resource", "cluster"), Statistics: distributionStatistics()[:7],
			Kind: Gauge, Family: "windtunnel_watch_lag_seconds", Most: true, Shown: []string{"p99", "max"}},
		{Name: "watch-cache-wait", Unit: "seconds", Text: "time for which reads waited until the watch cache had caught up with etcd",
			Source: reference, Labels: anyLabels("resource"), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "apiserver_watch_cache_read_wait_seconds", Calls: true, Shown: showP99()},
		{Name: "watch-list-latency", Unit: "seconds", Text: "from the start of a watch that lists to the end of its list",
			Source: reference, Labels: anyLabels("resource", "scope"), Statistics: distributionStatistics(),
			Kind: Histogram, Family: "apiserver_watch_list_duration_seconds", Calls: true, Shown: showP99()},
		{Name: "watch-events", Unit: "events", Text: "events sent to watches",
			Source: reference, Labels: anyLabels("resource"), Statistics: rateStatistics(), Kind: Counter, Family: "apiserver_watch_events_total", Calls: true, Shown: []string{"rate"}},
		{Name: "watchers-ended", Unit: "watches", Text: "watches that kube-apiserver ended because they were too slow",
			Source: reference, Labels: anyLabels("resource"), Statistics: []string{"sum", "rate", "max"},
			Kind: Counter, Family: "apiserver_terminated_watchers_total", Calls: true, Shown: []string{"sum"}},
		// Those of client-go's informers: what a restart costs their users, and the server.
		{Name: "watches-ended", Unit: "watches", Text: "watches of clients (`clients`) that ended before their time; reason: closed, the server ended it or the connection was closed; expired, the resourceVersion of an informer was gone; error, another error of the server, or a connection that was silent",
			Source: informers, Labels: oneOf(anyLabels("step", "clients"), "reason", "closed", "expired", "error"), Statistics: rateStatistics(), Kind: Counter, Family: "windtunnel_load_watches_ended_total"},
		{Name: "watch-unread", Unit: "bytes", Text: "bytes of watches that a client with a slow `reader` has received and not read, the most of any connection in each second; a watch gets no more than 4 MiB ahead, as with client-go, and the server holds back the rest",
			Source: informers, Labels: anyLabels("step", "clients"), Statistics: levelStatistics(), Kind: Gauge, Family: "windtunnel_load_watch_unread_bytes"},
		{Name: "watch-recovery", Unit: "seconds", Text: "from the end of a watch of an informer to the moment when the informer watched again with all objects: resumed, listed and watched, or with the bookmark behind all initial events",
			Source: informers, Labels: anyLabels("step", "clients"), Statistics: distributionStatistics(), Kind: Histogram, Family: "windtunnel_load_watch_recovery_seconds", Shown: showP99()},
		{Name: "relists", Unit: "relists", Text: "times that an informer got all objects once more, by a list or by initial events of a watch",
			Source: informers, Labels: anyLabels("step", "clients"), Statistics: rateStatistics(), Kind: Counter, Family: "windtunnel_load_relists_total", Shown: []string{"sum"}},
		{Name: "relist-bytes", Unit: "bytes", Text: "bytes of relists, of those that failed, too",
			Source: informers, Labels: anyLabels("step", "clients"), Statistics: rateStatistics(), Kind: Counter, Family: "windtunnel_load_relist_bytes_total", Shown: []string{"sum"}},
	}
}

// queueIndicators are the indicators of controllers: those of Kubernetes, and of every
// subject that is built with client-go or controller-runtime.
func queueIndicators() []Indicator {
	const queue = "https://pkg.go.dev/k8s.io/client-go/util/workqueue#MetricsProvider"
	const runtime = "https://book.kubebuilder.io/reference/metrics-reference"
	per := []string{Component}
	return []Indicator{
		{Name: "workqueue-depth", Unit: "items", Text: "items that wait in work queues", Source: queue, Labels: anyLabels(Component, "name"), Per: per,
			Statistics: levelStatistics(), Kind: Gauge, Family: "workqueue_depth", Shown: []string{"max"}},
		{Name: "workqueue-latency", Unit: "seconds", Text: "time for which an item waited in a work queue", Source: queue, Labels: anyLabels(Component, "name"), Per: per,
			Statistics: distributionStatistics(), Kind: Histogram, Family: "workqueue_queue_duration_seconds", Shown: showP99()},
		{Name: "workqueue-work", Unit: "seconds", Text: "time that the work on one item of a queue took", Source: queue, Labels: anyLabels(Component, "name"), Per: per,
			Statistics: distributionStatistics(), Kind: Histogram, Family: "workqueue_work_duration_seconds", Shown: showP99()},
		{Name: "workqueue-adds", Unit: "items", Text: "items added to work queues", Source: queue, Labels: anyLabels(Component, "name"), Per: per,
			Statistics: rateStatistics(), Kind: Counter, Family: "workqueue_adds_total"},
		{Name: "workqueue-retries", Unit: "items", Text: "items that were put into work queues again", Source: queue, Labels: anyLabels(Component, "name"), Per: per,
			Statistics: rateStatistics(), Kind: Counter, Family: "workqueue_retries_total", Shown: []string{"sum"}},
		{Name: "workqueue-longest", Unit: "seconds", Text: "for how long the longest-running work on one item of a queue has been running", Source: queue, Labels: anyLabels(Component, "name"), Per: per,
			Statistics: levelStatistics(), Kind: Gauge, Family: "workqueue_longest_running_processor_seconds", Most: true, Shown: []string{"max"}},
		{Name: "workqueue-unfinished", Unit: "seconds", Text: "running work, all items together", Source: queue, Labels: anyLabels(Component, "name"), Per: per,
			Statistics: levelStatistics(), Kind: Gauge, Family: "workqueue_unfinished_work_seconds"},
		{Name: "reconcile-latency", Unit: "seconds", Text: "time of one reconciliation of a controller-runtime controller", Source: runtime, Labels: anyLabels(Component, "controller"),
			Per: []string{Component}, Statistics: distributionStatistics(), Kind: Histogram, Family: "controller_runtime_reconcile_time_seconds", Shown: showP99()},
		{Name: "reconcile-rate", Unit: "reconciliations", Text: "reconciliations of controller-runtime controllers", Source: runtime, Labels: oneOf(anyLabels(Component, "controller"), "result", "success", "error", "requeue", "requeue_after"),
			Per: per, Statistics: rateStatistics(), Kind: Counter, Family: "controller_runtime_reconcile_total", Shown: []string{"rate"}},
		{Name: "reconcile-errors", Unit: "reconciliations", Text: "reconciliations of controller-runtime controllers that failed", Source: runtime, Labels: anyLabels(Component, "controller"),
			Per: per, Statistics: rateStatistics(), Kind: Counter, Family: "controller_runtime_reconcile_errors_total", Shown: []string{"sum"}},
		{Name: "reconcile-active", Unit: "workers", Text: "workers of controller-runtime controllers that are busy", Source: runtime, Labels: anyLabels(Component, "controller"),
			Per: per, Statistics: levelStatistics(), Kind: Gauge, Family: "controller_runtime_active_workers"},
	}
}

// clientIndicators are the indicators of the components as clients of kube-apiserver.
func clientIndicators() []Indicator {
	per := []string{Component}
	return []Indicator{
		{Name: "client-throttling", Unit: "seconds", Text: "time for which a component's own rate limiter held a request back", Source: reference,
			Labels: anyLabels(Component, "verb", "host"), Per: per, Statistics: distributionStatistics(),
			Kind: Histogram, Family: "rest_client_rate_limiter_duration_seconds", Shown: showP99()},
		{Name: "client-latency", Unit: "seconds", Text: "duration of a component's requests, as its client saw them", Source: reference,
			Labels: anyLabels(Component, "verb", "host"), Per: per, Statistics: distributionStatistics(),
			Kind: Histogram, Family: "rest_client_request_duration_seconds"},
		{Name: "client-requests", Unit: "requests", Text: "requests that a component sent", Source: reference,
			Labels: anyLabels(Component, "method", "code", "host"), Per: per, Statistics: rateStatistics(), Kind: Counter, Family: "rest_client_requests_total", Shown: []string{"rate"}},
		{Name: "requests-by-client", Unit: "requests", Text: "requests of a client that the API server answered, from its audit log (`plane.audit`); client is the first product of the user agent. 0 is a value where the client and the resource are in other requests",
			Source: audited, Labels: auditLabels(), Per: []string{"client"}, Statistics: rateStatistics(),
			Kind: Counter, Family: "windtunnel_client_requests_total"},
		{Name: "request-time-by-client", Unit: "seconds", Rate: "requests", Text: "time of a client's requests from receipt to answer, all together, without long-running requests (watches, streams, logs, profiles of the API server); its rate is how many run at a time on average",
			Source: audited, Labels: auditLabels(), Per: []string{"client"}, Statistics: rateStatistics(),
			Kind: Counter, Family: "windtunnel_client_request_seconds_total"},
		{Name: "watches-by-client", Unit: "watches", Text: "watches that a client began",
			Source: audited, Labels: anyLabels("client", "version", "user", "resource"), Per: []string{"client"}, Statistics: rateStatistics(),
			Kind: Counter, Family: "windtunnel_client_watches_total"},
		{Name: "connection-sent", Unit: "bytes", Text: "bytes that windtunnel sent on a connection, TLS and all; connection is its number", Source: "windtunnel's own connections",
			Labels: anyLabels("client", "connection"), Per: []string{"client"}, Statistics: rateStatistics(), Kind: Counter, Family: "windtunnel_connection_sent_bytes_total"},
		{Name: "connection-received", Unit: "bytes", Text: "bytes that windtunnel received on a connection, TLS and all; connection is its number", Source: "windtunnel's own connections",
			Labels: anyLabels("client", "connection"), Per: []string{"client"}, Statistics: rateStatistics(), Kind: Counter, Family: "windtunnel_connection_received_bytes_total"},
	}
}

// etcdIndicators are the indicators of etcd.
func etcdIndicators() []Indicator {
	const etcd = "https://etcd.io/docs/latest/metrics/"
	return []Indicator{
		{Name: "etcd-latency", Unit: "seconds", Text: "duration of kube-apiserver's requests to etcd", Source: reference, Labels: anyLabels("operation", "resource"),
			Statistics: distributionStatistics(), Kind: Histogram, Family: "etcd_request_duration_seconds", Calls: true, Shown: showP99()},
		{Name: "etcd-fsync", Unit: "seconds", Text: "duration of an fsync of etcd's log", Source: etcd, Statistics: distributionStatistics(),
			Kind: Histogram, Family: "etcd_disk_wal_fsync_duration_seconds", Shown: showP99()},
		{Name: "etcd-commit", Unit: "seconds", Text: "duration of a commit to etcd's database", Source: etcd, Statistics: distributionStatistics(),
			Kind: Histogram, Family: "etcd_disk_backend_commit_duration_seconds", Shown: showP99()},
		{Name: "etcd-size", Unit: "bytes", Text: "size of etcd's database file", Source: etcd, Statistics: levelStatistics(),
			Kind: Gauge, Family: "etcd_mvcc_db_total_size_in_bytes", Most: true, Shown: []string{"max"}},
		{Name: "etcd-size-in-use", Unit: "bytes", Text: "what of etcd's database is in use", Source: etcd, Statistics: levelStatistics(),
			Kind: Gauge, Family: "etcd_mvcc_db_total_size_in_use_in_bytes", Most: true, Shown: []string{"max"}},
		{Name: "etcd-compaction", Unit: "seconds", Text: "duration of a compaction of etcd's database", Source: etcd, Statistics: distributionStatistics(),
			Kind: Histogram, Family: "etcd_debugging_mvcc_db_compaction_total_duration_milliseconds", Scale: 1e-3, Shown: []string{"max"}},
		{Name: "etcd-compaction-pause", Unit: "seconds", Text: "for how long a compaction held everything else up", Source: etcd, Statistics: distributionStatistics(),
			Kind: Histogram, Family: "etcd_debugging_mvcc_db_compaction_pause_duration_milliseconds", Scale: 1e-3},
		{Name: "etcd-leader-changes", Unit: "changes", Text: "changes of etcd's leader", Source: etcd, Statistics: []string{"sum", "rate", "max"},
			Kind: Counter, Family: "etcd_server_leader_changes_seen_total", Shown: []string{"sum"}},
		// Package leaders asks etcd ten times a second and the others once a second.
		{Name: "time-without-leader", Unit: "seconds", Text: "time in which none of several processes of a component led: max is the longest such time, sum all of them, count their number. windtunnel asks each etcd member every 100 ms, and each scheduler and controller manager every second; the time is known to within two answers. Not measured where a component has one process", Source: "etcd's maintenance API and leader_election_master_status",
			Labels: map[string][]string{Component: {"etcd", "kube-scheduler", "kube-controller-manager"}}, Per: []string{Component}, Statistics: []string{"max", "sum", "count"}},
		{Name: "etcd-slow-applies", Unit: "entries", Text: "log entries that etcd took longer than 100 ms to apply", Source: etcd, Statistics: []string{"sum", "rate", "max"},
			Kind: Counter, Family: "etcd_server_slow_apply_total", Shown: []string{"sum"}},
		{Name: "etcd-proposals-pending", Unit: "proposals", Text: "writes that wait for etcd's quorum", Source: etcd, Statistics: levelStatistics(),
			Kind: Gauge, Family: "etcd_server_proposals_pending", Shown: []string{"max"}},
	}
}

// processIndicators are the indicators of what components cost. The first four stand
// side by side as in KubeVela's load test report: what the program holds, what
// its runtime took from the system, what the system gave it, and the collector.
func processIndicators() []Indicator {
	const client = "https://pkg.go.dev/runtime#MemStats"
	per := []string{Component}
	one := anyLabels(Component)
	return []Indicator{
		{Name: "go-alloc", Unit: "bytes", Text: "bytes of live and not yet collected Go objects (ALLOC)", Source: client, Labels: one, Per: per, Statistics: levelStatistics(),
			Kind: Gauge, Family: "go_memstats_alloc_bytes", Shown: []string{"max"}},
		{Name: "go-sys", Unit: "bytes", Text: "bytes that the Go runtime took from the system (SYS)", Source: client, Labels: one, Per: per, Statistics: levelStatistics(),
			Kind: Gauge, Family: "go_memstats_sys_bytes", Shown: []string{"max"}},
		{Name: "resident-memory", Unit: "bytes", Text: "resident memory of the process", Source: "proc_pid_status(5)", Labels: one, Per: per, Statistics: levelStatistics(),
			Kind: Gauge, Family: "process_resident_memory_bytes", Shown: []string{"max"}},
		{Name: "gc-pause", Unit: "seconds", Text: "pauses of the Go garbage collector", Source: "https://pkg.go.dev/runtime/debug#GCStats", Labels: one, Per: per,
			Statistics: []string{"mean", "rate", "sum"}, Kind: Summary, Family: "go_gc_duration_seconds", Shown: []string{"mean", "rate"}},
		{Name: "goroutines", Unit: "goroutines", Text: "goroutines of the process", Source: client, Labels: one, Per: per, Statistics: levelStatistics(),
			Kind: Gauge, Family: "go_goroutines", Shown: []string{"max"}},
		{Name: "cpu", Unit: "seconds", Rate: "cores", Text: "CPU time of the process, user and system", Source: "proc_pid_stat(5)", Labels: one, Per: per, Statistics: rateStatistics(),
			Kind: Counter, Family: "process_cpu_seconds_total", Shown: []string{"rate", "max"}},
		{Name: "cpu-throttled", Unit: "seconds", Rate: "ratio", Text: "time for which a component's cgroup held its threads back for its CPU limit", Source: "cgroup v1 and v2, cpu.stat",
			Labels: one, Per: per, Statistics: rateStatistics(), Kind: Counter, Family: "cgroup_cpu_throttled_seconds_total", Shown: []string{"rate"}},
	}
}
