package instrument

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/util/workqueue"
)

// queues are the metrics of work queues. Many queues may have one name: those
// of the agents of one process are shown as one.
type queues struct {
	depth                    *prometheus.GaugeVec
	adds, retries            *prometheus.CounterVec
	waited, worked           *prometheus.HistogramVec
	unfinished, longestSince *together
}

func (q *queues) registerMetrics(r *Registry) {
	prefix := r.prefix + "workqueue_"
	q.depth = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: prefix + "depth", Help: "Keys that wait in the queue."}, []string{"name"})
	q.adds = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "adds_total", Help: "Keys added to the queue."}, []string{"name"})
	q.retries = prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + "retries_total", Help: "Keys put back after a failure."}, []string{"name"})
	q.unfinished = newTogether(prefix+"unfinished_work_seconds", "Time that keys under way have taken so far, of all of them.", func(a, b float64) float64 { return a + b })
	q.longestSince = newTogether(prefix+"longest_running_processor_seconds", "Time that the key that has been under way for longest has taken so far.", func(a, b float64) float64 { return max(a, b) })
	q.waited = r.Histogram(prefix+"queue_duration_seconds", "Time that keys waited in the queue.", "name")
	q.worked = r.Histogram(prefix+"work_duration_seconds", "Time that keys took to work on.", "name")
	r.MustRegister(q.depth, q.adds, q.retries, q.unfinished, q.longestSince)
}

// Queues returns the provider that work queues are made with.
func (r *Registry) Queues() workqueue.MetricsProvider { return &r.queues }

func (q *queues) NewDepthMetric(name string) workqueue.GaugeMetric {
	return q.depth.WithLabelValues(name)
}

func (q *queues) NewAddsMetric(name string) workqueue.CounterMetric {
	return q.adds.WithLabelValues(name)
}

func (q *queues) NewRetriesMetric(name string) workqueue.CounterMetric {
	return q.retries.WithLabelValues(name)
}

func (q *queues) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return q.waited.WithLabelValues(name)
}

func (q *queues) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return q.worked.WithLabelValues(name)
}

func (q *queues) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.unfinished.addPart(name)
}

func (q *queues) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return q.longestSince.addPart(name)
}

// together is a gauge that several queues of one name set, each its part.
type together struct {
	desc  *prometheus.Desc
	merge func(a, b float64) float64
	mu    sync.Mutex
	parts map[string][]*part
}

type part struct {
	mu    sync.Mutex
	value float64
}

func newTogether(name, help string, merge func(a, b float64) float64) *together {
	return &together{desc: prometheus.NewDesc(name, help, []string{"name"}, nil), merge: merge, parts: map[string][]*part{}}
}

func (t *together) addPart(name string) *part {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := &part{}
	t.parts[name] = append(t.parts[name], p)
	return p
}

// Set is called by a queue.
func (p *part) Set(v float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.value = v
}

func (p *part) get() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.value
}

// Describe and Collect make it a prometheus.Collector.
func (t *together) Describe(out chan<- *prometheus.Desc) { out <- t.desc }

// Collect merges the parts of each name.
func (t *together) Collect(out chan<- prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, parts := range t.parts {
		value := 0.0
		for _, p := range parts {
			value = t.merge(value, p.get())
		}
		out <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, value, name)
	}
}
