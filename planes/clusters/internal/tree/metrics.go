package tree

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// metrics are the tree's own; calls and queues are the kit's.
type metrics struct {
	steps     prometheus.Counter
	unguarded *prometheus.CounterVec
	statuses  *prometheus.CounterVec
	created   *prometheus.CounterVec
	converted *prometheus.CounterVec
	failures  *prometheus.CounterVec
	waited    *prometheus.HistogramVec
	answered  *prometheus.HistogramVec
	joined    *prometheus.HistogramVec
	down      *prometheus.HistogramVec
	passes    *prometheus.HistogramVec
}

func newMetrics(l *leaves, r *instrument.Registry) *metrics {
	m := &metrics{
		steps:     r.Counter("tree_lookup_steps_total", "Leaves that were looked at to find those of nodes."),
		unguarded: r.CounterVec("tree_wrong_pod_writes_total", "Writes on a host's pod for a member's pod that was made for another of the same name.", "verb"),
		statuses:  r.CounterVec("tree_pod_statuses_total", "Statuses of members' pods, by what became of them: written, unchanged.", "result"),
		created:   r.CounterVec("tree_member_pods_created_total", "Pods made in members.", "member"),
		converted: r.CounterVec("tree_pods_converted_total", "Times that a policy changed a pod on its way to a member.", "policy"),
		failures:  r.CounterVec("tree_failures_total", "What did not go through and goes again.", "part"),
		waited:    r.Histogram("tree_limiter_wait_seconds", "Time that calls waited for one of the tree's limiters.", "side", "limiter"),
		joined:    r.Histogram("tree_join_seconds", "From the first look at a new Cluster until its controllers run."),
		down:      r.Histogram("tree_pod_down_seconds", "Time to make a pod in its member, by the result.", "result"),
		passes:    r.Histogram("tree_pass_seconds", "Time of a pass over the leaves of a member, by what was renewed.", "of"),
	}
	// Its buckets are few, and Kubernetes' bounds are among them: there is one for each member.
	m.answered = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tree_member_answer_seconds", Help: "Time that a member's API server took to answer, its distance included and the limiter not, by the class of the call.",
		Buckets: []float64{.0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"member", "class"})
	r.MustRegister(m.answered)
	r.GaugeFunc("tree_members", "Members that have joined.", func() float64 { return float64(len(l.everyMember())) })
	r.ShowAll(prometheus.GaugeValue, "tree_leaves", "Virtual nodes of the members that have joined.", []string{"member"}, func(show func(float64, ...string)) {
		for _, j := range l.everyMember() {
			show(float64(len(j.member.leaves)), j.member.name)
		}
	})
	return m
}
