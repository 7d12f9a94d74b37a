package grafana

import "strings"

// chart is one chart in short.
type chart struct {
	title, about, unit string
	queries            []query
}

type query struct{ expr, legend string }

// row is a row of charts under one heading.
type row struct {
	title  string
	charts []chart
}

// quantileQuery writes a quantile over a histogram of the servers', in groups.
func quantileQuery(quantile, metric, by string) string {
	selector := metric + "_bucket"
	if name, labels, ok := strings.Cut(metric, "{"); ok {
		selector = name + "_bucket{" + labels
	}
	return "histogram_quantile(" + quantile + ", sum by (le" + afterComma(by) + ") (rate(" + selector + "[$__rate_interval])))"
}

func afterComma(by string) string {
	if by == "" {
		return ""
	}
	return ", " + by
}

// listRows returns what the dashboard shows, from what users feel down to what it costs.
func listRows() []row {
	return []row{
		{"API", []chart{
			{"Requests", "What kube-apiserver answers, watches left out.", "reqps", []query{
				{`sum by (verb) (rate(apiserver_request_total{verb!~"WATCH|CONNECT"}[$__rate_interval]))`, "{{verb}}"},
			}},
			{"Latency, p99", "As the official SLOs have it: without webhooks and without the wait in priority and fairness queues.", "s", []query{
				{quantileQuery("0.99", `apiserver_request_sli_duration_seconds{verb!~"WATCH|CONNECT"}`, "verb"), "{{verb}}"},
			}},
			{"Requests that were not answered with success", "By status code.", "reqps", []query{
				{`sum by (code) (rate(apiserver_request_total{code=~"[45].."}[$__rate_interval]))`, "{{code}}"},
			}},
			{"In flight, and waiting in priority and fairness queues", "", "short", []query{
				{"sum by (request_kind) (apiserver_current_inflight_requests)", "{{request_kind}}"},
				{"sum by (priority_level) (apiserver_flowcontrol_current_inqueue_requests) > 0", "waiting: {{priority_level}}"},
			}},
			{"Watch events", "Events that leave kube-apiserver, all watchers together.", "eps", []query{
				{"topk(10, sum by (resource) (rate(apiserver_watch_events_total[$__rate_interval])))", "{{resource}}"},
			}},
			{"Watch cache behind etcd, p99", "How long reads waited for the watch cache to catch up.", "s", []query{
				{"topk(10, " + quantileQuery("0.99", "apiserver_watch_cache_read_wait_seconds", "resource") + ")", "{{resource}}"},
			}},
		}},
		{"Scheduler and controllers", []chart{
			{"Scheduling attempts", "By result.", "ops", []query{
				{"sum by (result) (rate(scheduler_schedule_attempts_total[$__rate_interval]))", "{{result}}"},
			}},
			{"Pending pods", "By the scheduler's queue.", "short", []query{{"sum by (queue) (scheduler_pending_pods)", "{{queue}}"}}},
			{"Scheduling, p99", "One attempt, and a pod from its first attempt on.", "s", []query{
				{quantileQuery("0.99", "scheduler_scheduling_attempt_duration_seconds", ""), "one attempt"},
				{quantileQuery("0.99", "scheduler_pod_scheduling_sli_duration_seconds", ""), "a pod"},
			}},
			{"Work queues, depth", "The ten longest.", "short", []query{{`topk(10, sum by (job, name) (workqueue_depth{job=~"$job"}) > 0)`, "{{job}} {{name}}"}}},
			{"Work queues, wait, p99", "The ten slowest.", "s", []query{
				{"topk(10, " + quantileQuery("0.99", `workqueue_queue_duration_seconds{job=~"$job"}`, "job, name") + ")", "{{job}} {{name}}"},
			}},
			{"Work queues, retries", "The ten with most.", "ops", []query{
				{`topk(10, sum by (job, name) (rate(workqueue_retries_total{job=~"$job"}[$__rate_interval])) > 0)`, "{{job}} {{name}}"},
			}},
			{"Client-side throttling, p99", "How long a component's own rate limiter held back its requests.", "s", []query{
				{quantileQuery("0.99", `rest_client_rate_limiter_duration_seconds{job=~"$job"}`, "job, verb"), "{{job}} {{verb}}"},
			}},
		}},
		{"etcd", []chart{
			{"Sync and commit, p99", "", "s", []query{
				{quantileQuery("0.99", "etcd_disk_wal_fsync_duration_seconds", ""), "write-ahead log"},
				{quantileQuery("0.99", "etcd_disk_backend_commit_duration_seconds", ""), "commit"},
			}},
			{"Requests of kube-apiserver, p99", "", "s", []query{{quantileQuery("0.99", "etcd_request_duration_seconds", "operation"), "{{operation}}"}}},
			{"Database", "", "bytes", []query{
				{"etcd_mvcc_db_total_size_in_bytes", "size"},
				{"etcd_mvcc_db_total_size_in_use_in_bytes", "in use"},
				{"etcd_server_quota_backend_bytes", "quota"},
			}},
		}},
		{"What it costs", []chart{
			{"CPU", "windtunnel's own is among them.", "none", []query{
				{`sum by (job) (rate(process_cpu_seconds_total{job=~"$job"}[$__rate_interval]))`, "{{job}}"},
				{`sum by (mode) (rate(host_cpu_seconds_total{mode=~"steal"}[$__rate_interval])) > 0`, "host: {{mode}}"},
			}},
			{"Resident memory", "", "bytes", []query{{`process_resident_memory_bytes{job=~"$job"}`, "{{job}}"}}},
			{"Held back by its CPU limit", "Seconds in a second for which threads of the control group waited.", "s", []query{
				{`sum by (job) (rate(cgroup_cpu_throttled_seconds_total{job=~"$job"}[$__rate_interval]))`, "{{job}}"},
			}},
			{"Go heap", "", "bytes", []query{{`go_memstats_heap_inuse_bytes{job=~"$job"}`, "{{job}}"}}},
			{"Goroutines", "", "short", []query{{`go_goroutines{job=~"$job"}`, "{{job}}"}}},
			{"Garbage collection", "Pauses: seconds in a second.", "s", []query{
				{`rate(go_gc_duration_seconds_sum{job=~"$job"}[$__rate_interval])`, "{{job}}"},
			}},
		}},
	}
}

// The grid: three charts stand side by side.
const (
	gridColumns = 24
	chartWidth  = 8
	chartHeight = 8
)

// layPanels lays the rows out on the grid.
func layPanels() []Panel {
	var out []Panel
	add := func(p Panel) { p.ID = len(out) + 1; out = append(out, p) }
	y := 0
	for _, r := range listRows() {
		open := false
		add(Panel{Type: "row", Title: r.title, GridPos: Grid{H: 1, W: gridColumns, Y: y}, Collapsed: &open, Panels: &[]Panel{}})
		y++
		for i, c := range r.charts {
			p := c.newPanel()
			perRow := gridColumns / chartWidth
			p.GridPos = Grid{H: chartHeight, W: chartWidth, X: i % perRow * chartWidth, Y: y + i/perRow*chartHeight}
			add(p)
		}
		y = out[len(out)-1].GridPos.Y + chartHeight
	}
	return out
}

func (c chart) newPanel() Panel {
	p := Panel{Type: "timeseries", Title: c.title, Description: c.about, Datasource: chosenSource(), FieldConfig: &FieldSet{Overrides: []any{}}, Options: &ChartLooks{}}
	for i, one := range c.queries {
		p.Targets = append(p.Targets, Target{RefID: string(rune('A' + i)), Expr: one.expr, Legend: one.legend, Range: true, Source: *chosenSource()})
	}
	zero := 0.0
	p.FieldConfig.Defaults.Unit, p.FieldConfig.Defaults.Min = c.unit, &zero
	p.FieldConfig.Defaults.Custom.LineWidth, p.FieldConfig.Defaults.Custom.FillOpacity, p.FieldConfig.Defaults.Custom.ShowPoints = 1, 8, "never"
	p.Options.Legend.DisplayMode, p.Options.Legend.Placement, p.Options.Legend.ShowLegend, p.Options.Legend.Calcs = "list", "bottom", true, []string{}
	p.Options.Tooltip.Mode, p.Options.Tooltip.Sort = "multi", "desc"
	return p
}
