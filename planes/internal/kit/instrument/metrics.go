package instrument

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Counter makes a counter.
func (r *Registry) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.MustRegister(c)
	return c
}

// CounterVec makes counters that labels tell apart.
func (r *Registry) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.MustRegister(c)
	return c
}

// Gauge makes a gauge.
func (r *Registry) Gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.MustRegister(g)
	return g
}

// GaugeVec makes gauges that labels tell apart.
func (r *Registry) GaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.MustRegister(g)
	return g
}

// Histogram makes a histogram of seconds with the buckets of this package.
func (r *Registry) Histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return r.HistogramIn(durationBuckets(), name, help, labels...)
}

// durationBuckets grow by a quarter from 1 ms; the 69 of them end at 3900 s.
func durationBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 1.25, 69) }

// HistogramIn makes a histogram with buckets of its own, and a native one beside them.
func (r *Registry) HistogramIn(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, labels)
	r.MustRegister(h)
	return h
}

// CounterFunc shows what value returns whenever the registry is read, as a counter.
func (r *Registry) CounterFunc(name, help string, value func() float64) {
	r.ShowAll(prometheus.CounterValue, name, help, nil, func(show func(float64, ...string)) { show(value()) })
}

// GaugeFunc shows what value returns whenever the registry is read, as a gauge.
func (r *Registry) GaugeFunc(name, help string, value func() float64) {
	r.ShowAll(prometheus.GaugeValue, name, help, nil, func(show func(float64, ...string)) { show(value()) })
}

// ShowAll calls read whenever the registry is read, which shows each value of the metric
// with the values of its labels.
func (r *Registry) ShowAll(kind prometheus.ValueType, name, help string, labels []string, read func(show func(value float64, labels ...string))) {
	r.MustRegister(shown{kind, prometheus.NewDesc(name, help, labels, nil), read})
}

// shown is a metric whose values are kept elsewhere.
type shown struct {
	kind prometheus.ValueType
	desc *prometheus.Desc
	read func(show func(value float64, labels ...string))
}

// Describe implements prometheus.Collector.
func (s shown) Describe(out chan<- *prometheus.Desc) { out <- s.desc }

// Collect implements prometheus.Collector.
func (s shown) Collect(out chan<- prometheus.Metric) {
	s.read(func(value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(s.desc, s.kind, value, labels...)
	})
}
