package controller

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// metrics are KubeVela's by name. Its own buckets begin at 5 ms, in which an
// index that answers in 25 us cannot be seen; these begin at 10 us.
type metrics struct {
	clock      clock.Clock
	stages     *prometheus.HistogramVec
	passes     *prometheus.HistogramVec
	components *prometheus.HistogramVec
	workflows  *prometheus.HistogramVec
	requests   *prometheus.HistogramVec
	steps      *prometheus.HistogramVec
	phases     *prometheus.GaugeVec
	stepPhases *prometheus.GaugeVec
	trackers   *prometheus.CounterVec
	packages   prometheus.Counter // KubeVela counts none
	revisions  prometheus.Counter // nor of these

	mu   sync.Mutex
	seen map[string]shown // by key of the application
}

// shown is what the gauges count of one application.
type shown struct {
	phase api.Phase
	steps []api.StepStatus
}

func newMetrics(r *instrument.Registry, c clock.Clock, concurrent int) *metrics {
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return r.HistogramIn(prometheus.ExponentialBuckets(10e-6, 1.5, 45), name, help, labels...) // to 560 s
	}
	m := &metrics{
		clock: c, seen: map[string]shown{},
		stages:     histogram("kubevela_app_reconcile_time_seconds", "Time of each stage of a pass over an application.", "stage"),
		passes:     histogram("application_reconcile_time_seconds", "Time of a pass, by the phase that it found and the phase that it left.", "begin_phase", "end_phase"),
		components: histogram("apply_component_time_seconds", "Time to bring out a component.", "stage"),
		workflows:  histogram("workflow_finished_time_seconds", "From the first step of a workflow to its end.", "phase"),
		requests: histogram("kubevela_controller_client_request_time_seconds", "Time of requests, the wait for the limiter included, and of reads from caches.",
			"controller", "cluster", "verb", "kind", "apiVersion", "unstructured"),
		steps:      r.HistogramIn(prometheus.ExponentialBuckets(0.01, 1.5, 45), "step_duration_ms", "Time of one execution of a step, in ms.", "controller", "step_type"),
		phases:     r.GaugeVec("application_phase_number", "Applications by phase.", "phase"),
		stepPhases: r.GaugeVec("workflow_step_phase_number", "Steps of workflows by type and phase.", "step_type", "phase"),
		trackers:   r.CounterVec("list_resourcetracker_num", "Resource trackers that lists have gone through.", "controller"),
		packages:   r.Counter("app_template_packages_parsed_total", "Packages that evaluations of templates have parsed anew."),
		revisions:  r.Counter("app_revisions_listed_total", "Revisions that lists have gone through."),
	}
	workers := r.GaugeVec("controller_runtime_max_concurrent_reconciles", "Applications that are worked on at the same time.", "controller")
	workers.WithLabelValues("application").Set(float64(concurrent))
	return m
}

// secondsSince returns seconds.
func (m *metrics) secondsSince(begin clock.Time) float64 { return m.clock.Now().Sub(begin).Seconds() }

// showStep observes one visit of a step that began then; 0 says that nothing
// was evaluated or executed.
func (m *metrics) showStep(kind string, begun clock.Time) {
	var took time.Duration
	if begun != 0 {
		took = m.clock.Now().Sub(begun)
	}
	m.steps.WithLabelValues("application", kind).Observe(float64(took) / float64(time.Millisecond))
}

// timeStage times a stage of a pass until the function that it returns is called.
func (m *metrics) timeStage(name string) func() {
	return m.startTimer(m.stages.WithLabelValues(name))
}

// timeRequest times one request, or one read from a cache, in KubeVela's words.
func (m *metrics) timeRequest(verb, kind, apiVersion string) func() {
	return m.startTimer(m.requests.WithLabelValues("application", cluster.Local, verb, kind, apiVersion, "false"))
}

// startTimer begins a duration, which ends when the returned function is called.
func (m *metrics) startTimer(o prometheus.Observer) func() {
	begin := m.clock.Now()
	return func() { o.Observe(m.secondsSince(begin)) }
}

// remote stands for every member in KubeVela's label cluster, which has its name:
// of two hundred members that would be a hundred thousand series. The gateway
// counts by member.
const remote = "remote"

// timeRequestTo is timeRequest for an object of any kind, in the cluster that ctx names.
func (m *metrics) timeRequestTo(ctx context.Context, verb, kind, apiVersion string) func() {
	where := cluster.Local
	if cluster.Of(ctx) != "" {
		where = remote
	}
	return m.startTimer(m.requests.WithLabelValues("application", where, verb, kind, apiVersion, "true"))
}

// timeOwnRequest times a request on one of the plane's own kinds.
func (m *metrics) timeOwnRequest(verb, kind string) func() {
	return m.timeRequest(verb, kind, api.GroupVersion().String())
}

// showApplication counts an application in the gauges; nil takes it out.
func (m *metrics) showApplication(key string, a *api.Application) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if old, ok := m.seen[key]; ok {
		m.addLocked(old, -1)
		delete(m.seen, key)
	}
	if a == nil {
		return
	}
	now := shown{phase: a.Status.Phase}
	if a.Status.Workflow != nil {
		now.steps = a.Status.Workflow.Steps
	}
	m.addLocked(now, 1)
	m.seen[key] = now
}

func (m *metrics) addLocked(s shown, n float64) {
	m.phases.WithLabelValues(string(s.phase)).Add(n)
	for _, step := range s.steps {
		m.stepPhases.WithLabelValues(step.Type, step.Phase).Add(n)
	}
}
