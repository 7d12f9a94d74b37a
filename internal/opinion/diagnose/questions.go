package diagnose

import (
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Names of the expressions. Those that end in Mean are for people: their values
// are shown, and nothing is computed from them but where it is said.
const (
	busy          = "busy"         // share of all cores' time
	cpu           = "cpu"          // cores in use
	planeCPU      = "plane-cpu"    // the same of the plane's components together
	waiting       = "waiting"      // threads that are ready to run and have no core
	held          = "held"         // share of the CPU controller's periods in which it was throttled
	throttles     = "throttles"    // such periods, per second
	resident      = "resident"     // bytes
	charged       = "charged"      // bytes of the cgroup that the kernel cannot simply take away
	limitHits     = "limit-hits"   // times that the kernel ran into the memory limit, per second
	collecting    = "collecting"   // garbage collection's share of the CPU used
	goLimit       = "go-limit"     // resident bytes, of what GOMEMLIMIT allows
	throttled     = "throttled"    // calls that wait for a rate limiter
	paced         = "paced"        // calls that a rate limiter let go, per second
	throttledAt   = "throttled at" // calls that wait for a rate limiter, by server
	pacedAt       = "paced at"     // calls that a rate limiter let go, per second, by server
	sent          = "sent"         // requests that a client sent, per second
	asking        = "asking"       // calls that a client waits for, with the time that its limiter takes
	queued        = "queued"       // items that wait in a work queue, by those that left it
	depth         = "depth"        // the same, as its gauge has it
	working       = "working"      // workers that are busy
	reconcilers   = "reconcilers"  // workers that a controller of controller-runtime has
	requests      = "requests"     // requests in progress in the API server
	requestMean   = "request-mean" // seconds
	apfWait       = "apf-wait"     // requests in APF's queues
	apfRejected   = "apf-rejected" // share of requests
	apfSeats      = "apf-seats"
	apfUse        = "apf-use"  // share of a level's seats that are taken
	webhooks      = "webhooks" // calls of webhooks in progress
	webhookMean   = "webhook-mean"
	etcdCalls     = "etcd-calls" // in progress, seen from the API server
	etcdMean      = "etcd-mean"
	etcdFloor     = "etcd-floor" // the quickest tenth takes at most so long, seconds
	fsync         = "fsync"      // share of the time
	fsyncMean     = "fsync-mean"
	commit        = "commit" // share of the time
	commitMean    = "commit-mean"
	dbShare       = "db-share"   // of the quota
	cacheWait     = "cache-wait" // reads that wait for the watch cache
	cacheMean     = "cache-mean"
	mutex         = "mutex"     // goroutines that wait for a lock
	algorithm     = "algorithm" // share of the time that the scheduler searches
	algoMean      = "algo-mean"
	plugin        = "plugin"         // the scheduler's most costly plugin, by its share of what all take in a search
	remote        = "remote"         // calls to other clusters that are in progress
	remoteMean    = "remote-mean"    // seconds
	upstream      = "upstream"       // requests for which gateways wait for clusters, at a time
	upstreamMean  = "upstream-mean"  // seconds
	upstreamFloor = "upstream-floor" // the quickest tenth takes at most so long, seconds
	proxied       = "proxied"        // requests that a gateway passes on, per second
	byHub         = "by-hub"         // of them those that came through the API server
	served        = "served"         // requests that the API server answers itself, per second
	scanning      = "scanning"       // workers that list from a cache at a time, by kind
	scanMean      = "scan-mean"      // seconds
	stage         = "stage"          // the stage that takes most of a controller's work, by its share
	revisions     = "revisions"      // ApplicationRevisions that the API server has at most; it counts once a minute
	madeRevisions = "made-revisions" // those that a controller made and has not deleted again
	attempts      = "attempts"       // scheduling attempts in progress
	pending       = "pending"        // pods in the scheduler's active queue
)

// instance is the label that tells one component from another whatever labelling
// is in force.
const instance = "instance"

// question is an expression in which $w is the window as PromQL writes a
// duration, and $s its seconds.
type question struct{ name, expr string }

// increaseOf is by how much a counter grew within the window, summed up by labels. A
// series that appeared meanwhile grew from nothing, which increase() of PromQL
// does not know; after a restart only what came later than the next look counts.
func increaseOf(counter, by string) string {
	return strings.NewReplacer("COUNTER", counter, "BY", by).
		Replace("(sum by (BY) (COUNTER) - (sum by (BY) (COUNTER offset $w) or 0 * sum by (BY) (COUNTER)))")
}

// perSecond is the same for each second: of a counter of seconds, how many
// waited or worked at a time.
func perSecond(counter, by string) string { return increaseOf(counter, by) + " / $s" }

// meanOfGauge is the mean of a gauge that is read every second.
func meanOfGauge(gauge, by string) string {
	return "avg_over_time(sum by (" + by + ") (" + gauge + ")[$w:1s])"
}

// lastOf is the last value of a counter within the window, also of what has died since.
func lastOf(counter, by string) string {
	return "sum by (" + by + ") (last_over_time(" + counter + "[$w]))"
}

// withKubeVirt asks of a metric of client-go under its own name or, of components
// that have none so, under the prefix that KubeVirt's put before it.
func withKubeVirt(ask func(metric, by string) string, metric, by string) string {
	return ask(metric, by) + " or " + ask("kubevirt_"+metric, by)
}

// meanOf is the mean of a histogram.
func meanOf(histogram, by string) string {
	name, selector, _ := strings.Cut(histogram, "{")
	if selector != "" {
		selector = "{" + selector
	}
	return increaseOf(name+"_sum"+selector, by) + " / " + increaseOf(name+"_count"+selector, by)
}

// Selections of requests: watches last as long as they like, and lists of etcd
// as long as they are.
const (
	planeS   = `process_cpu_seconds_total{job=~"etcd|kube-apiserver|kube-scheduler|kube-controller-manager"}`
	request  = `apiserver_request_duration_seconds{verb!~"WATCH.*|CONNECT|PROXY"}`
	requestS = `apiserver_request_duration_seconds_sum{verb!~"WATCH.*|CONNECT|PROXY"}`
	etcd     = `etcd_request_duration_seconds{operation=~"get|create|update|delete"}`
	etcdS    = `etcd_request_duration_seconds_sum{operation=~"get|create|update|delete"}`
	// What a search consists of; the scheduler measures it for one pod in ten.
	pluginS = `scheduler_plugin_execution_duration_seconds_sum{extension_point=~"PreFilter|Filter|PreScore|Score"}`
	// KubeVela's own words for a call, also into a cache, and for a stage of a pass;
	// stages with a dot in their names are parts of others.
	velaCall   = "kubevela_controller_client_request_time_seconds"
	velaCallS  = velaCall + "_sum"
	velaMade   = velaCall + `_count{kind="ApplicationRevision",` // and the verb
	velaStageS = `kubevela_app_reconcile_time_seconds_sum{stage!~".*[.].*"}`
	etcdB      = `etcd_request_duration_seconds_bucket{operation=~"create|update|delete"}`
)

// listQuestions returns all that is asked of a run's series.
func listQuestions() []question {
	const queue, level, hook, kind = instance + ", name", instance + ", priority_level", instance + ", name", instance + ", kind"
	return []question{
		{busy, "1 - " + increaseOf(`host_cpu_seconds_total{mode=~"idle|iowait"}`, instance) + " / " + increaseOf("host_cpu_seconds_total", instance)},
		{cpu, perSecond("process_cpu_seconds_total", instance)},
		{planeCPU, `label_replace(` + perSecond(planeS, "") + `, "instance", "` + record.WholePlane + `", "", "")`},
		{waiting, perSecond("process_cpu_wait_seconds_total", instance)},
		{held, increaseOf("cgroup_cpu_throttled_periods_total", instance) + " / " + increaseOf("cgroup_cpu_periods_total", instance)},
		{throttles, perSecond("cgroup_cpu_throttled_periods_total", instance)},
		{resident, "max by (instance) (process_resident_memory_bytes)"},
		{charged, "max by (instance) (cgroup_memory_working_set_bytes)"},
		{limitHits, perSecond("cgroup_memory_limit_hits_total", instance)},
		{collecting, increaseOf("go_cpu_classes_gc_total_cpu_seconds_total", instance) + " / (" +
			increaseOf("go_cpu_classes_total_cpu_seconds_total", instance) + " - " + increaseOf("go_cpu_classes_idle_cpu_seconds_total", instance) + ")"},
		{goLimit, "max by (instance) (process_resident_memory_bytes) / max by (instance) (go_gc_gomemlimit_bytes)"},
		{throttled, withKubeVirt(perSecond, "rest_client_rate_limiter_duration_seconds_sum", instance)},
		{paced, withKubeVirt(perSecond, "rest_client_rate_limiter_duration_seconds_count", instance)},
		{throttledAt, perSecond("rest_client_rate_limiter_duration_seconds_sum", instance+", host")},
		{pacedAt, perSecond("rest_client_rate_limiter_duration_seconds_count", instance+", host")},
		{sent, withKubeVirt(perSecond, "rest_client_requests_total", instance)},
		{asking, perSecond("rest_client_request_duration_seconds_sum", instance) + " or " + perSecond("kubevirt_rest_client_request_latency_seconds_sum", instance)},
		{queued, withKubeVirt(perSecond, "workqueue_queue_duration_seconds_sum", queue)},
		{depth, withKubeVirt(meanOfGauge, "workqueue_depth", queue)},
		{working, "((" + withKubeVirt(increaseOf, "workqueue_work_duration_seconds_sum", queue) + ") + (" + withKubeVirt(increaseOf, "workqueue_unfinished_work_seconds", queue) + ")) / $s"},
		{reconcilers, "max by (instance, controller) (controller_runtime_max_concurrent_reconciles)"},
		{requests, perSecond(requestS, instance)},
		{requestMean, meanOf(request, instance)},
		{apfWait, perSecond("apiserver_flowcontrol_request_wait_duration_seconds_sum", level)},
		{apfRejected, increaseOf("apiserver_flowcontrol_rejected_requests_total", level) + " / (" + increaseOf("apiserver_flowcontrol_rejected_requests_total", level) +
			" + " + increaseOf("apiserver_flowcontrol_dispatched_requests_total", level) + ")"},
		{apfSeats, "max by (" + level + ") (apiserver_flowcontrol_current_limit_seats)"},
		{apfUse, meanOf(`apiserver_flowcontrol_priority_level_seat_utilization{phase="executing"}`, level)},
		{webhooks, perSecond("apiserver_admission_webhook_admission_duration_seconds_sum", hook)},
		{webhookMean, meanOf("apiserver_admission_webhook_admission_duration_seconds", hook)},
		{etcdCalls, perSecond(etcdS, instance)},
		{etcdMean, meanOf(etcd, instance)},
		{etcdFloor, "histogram_quantile(0.1, " + increaseOf(etcdB, instance+", le") + ")"},
		{fsync, perSecond("etcd_disk_wal_fsync_duration_seconds_sum", instance)},
		{fsyncMean, meanOf("etcd_disk_wal_fsync_duration_seconds", instance)},
		{commit, perSecond("etcd_disk_backend_commit_duration_seconds_sum", instance)},
		{commitMean, meanOf("etcd_disk_backend_commit_duration_seconds", instance)},
		{dbShare, "max by (instance) (etcd_mvcc_db_total_size_in_bytes) / max by (instance) (etcd_server_quota_backend_bytes)"},
		{cacheWait, perSecond("apiserver_watch_cache_read_wait_seconds_sum", instance)},
		{cacheMean, meanOf("apiserver_watch_cache_read_wait_seconds", instance)},
		{mutex, perSecond("go_sync_mutex_wait_total_seconds_total", instance)},
		{algorithm, perSecond("scheduler_scheduling_algorithm_duration_seconds_sum", instance)},
		{algoMean, meanOf("scheduler_scheduling_algorithm_duration_seconds", instance)},
		{plugin, "topk by (instance) (1, " + increaseOf(pluginS, instance+", extension_point, plugin") + " / on (instance) group_left () " + increaseOf(pluginS, instance) + ")"},
		{remote, perSecond(velaCallS+`{cluster!="local"}`, instance)},
		{remoteMean, meanOf(velaCall+`{cluster!="local"}`, instance)},
		{upstream, perSecond("ocm_proxy_proxied_request_duration_seconds_sum", "")},
		{upstreamMean, meanOf("ocm_proxy_proxied_request_duration_seconds", "")},
		{upstreamFloor, "histogram_quantile(0.1, " + increaseOf("ocm_proxy_proxied_request_duration_seconds_bucket", "le") + ")"},
		{proxied, perSecond("ocm_proxy_proxied_requests_by_cluster_total", instance)},
		{byHub, perSecond(`cluster_gateway_requests_total{way="aggregated"}`, "")},
		{served, perSecond(`apiserver_request_total{verb!~"WATCH.*|CONNECT|PROXY"}`, "")},
		{scanning, perSecond(velaCallS+`{verb="ListCache"}`, kind)},
		{scanMean, meanOf(velaCall+`{verb="ListCache"}`, kind)},
		{stage, "topk by (instance) (1, " + increaseOf(velaStageS, instance+", stage") + " / on (instance) group_left () " + increaseOf("application_reconcile_time_seconds_sum", instance) + ")"},
		{revisions, `max_over_time(max(apiserver_resource_objects{group="core.oam.dev",resource="applicationrevisions"})[$w:1s])`},
		{madeRevisions, lastOf(velaMade+`verb="Create"}`, instance) + " - (" + lastOf(velaMade+`verb="Delete"}`, instance) +
			" or 0 * " + lastOf(velaMade+`verb="Create"}`, instance) + ")"},
		{attempts, perSecond("scheduler_scheduling_attempt_duration_seconds_sum", instance)},
		{pending, `avg_over_time(sum by (instance) (scheduler_pending_pods{queue="active"})[$w:1s])`},
	}
}
