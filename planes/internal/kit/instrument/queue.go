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
	q.depth = r.GaugeVec(prefix+"depth", "Keys that wait in the queue.", "name")
	q.adds = r.CounterVec(prefix+"adds_total", "Keys added to the queue.", "name")
	q.retries = r.CounterVec(prefix+"retries_total", "Keys put back after a failure.", "name")
	q.unfinished = newTogether(r, prefix+"unfinished_work_seconds", "Time that keys under way have taken so far, of all of them.", func(a, b float64) float64 { return a + b })
	q.longestSince = newTogether(r, prefix+"longest_running_processor_seconds", "Time that the key that has been under way for longest has taken so far.", func(a, b float64) float64 { return max(a, b) })
	q.waited = r.Histogram(prefix+"queue_duration_seconds", "Time that keys waited in the queue.", "name")
	q.worked = r.Histogram(prefix+"work_duration_seconds", "Time that keys took to work on.", "name")
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
	merge func(a, b float64) float64
	mu    sync.Mutex
	parts map[string][]*part
}

type part struct {
	mu    sync.Mutex
	value float64
}

func newTogether(r *Registry, name, help string, merge func(a, b float64) float64) *together {
	t := &together{merge: merge, parts: map[string][]*part{}}
	r.ShowAll(prometheus.GaugeValue, name, help, []string{"name"}, t.showMerged)
	return t
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

// showMerged merges the parts of each name.
func (t *together) showMerged(show func(value float64, labels ...string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, parts := range t.parts {
		value := 0.0
		for _, p := range parts {
			value = t.merge(value, p.get())
		}
		show(value, name)
	}
}
