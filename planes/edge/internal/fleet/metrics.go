package fleet

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// metrics are the fleet's own.
type metrics struct {
	dials, ended, applied, refused *prometheus.CounterVec
	unanswered, reports            prometheus.Counter
	duplicates, resumed            prometheus.Counter
	back, request, started, late   *prometheus.HistogramVec
}

func newMetrics(f *Fleet, r *instrument.Registry) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "edge_fleet_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		dials:      counter("dials_total", "Attempts to connect, by how they went.", "result"),
		ended:      counter("connections_ended_total", "Connections that ended, and how.", "reason"),
		applied:    counter("applied_total", "Objects that hubs sent, by what they were to the edge.", "result"),
		refused:    counter("refused_total", "Requests that were answered with an error.", "request"),
		unanswered: prometheus.NewCounter(prometheus.CounterOpts{Name: "edge_fleet_unanswered_total", Help: "Requests that nobody answered within three minutes."}),
		back:       r.Histogram("edge_fleet_back_seconds", "From the loss of a connection to the next."),
		request:    r.Histogram("edge_fleet_request_seconds", "From an edge's request to its answer.", "resource"),
		started:    r.Histogram("edge_fleet_pod_start_seconds", "From a pod's arrival at the edge to when it runs there."),
		late:       r.Histogram("edge_fleet_late_seconds", "By how much the fleet itself was late with what an edge had to do."),
	}
	m.reports = prometheus.NewCounter(prometheus.CounterOpts{Name: "edge_fleet_device_reports_total", Help: "Reports that devices have sent."})
	m.duplicates = prometheus.NewCounter(prometheus.CounterOpts{Name: "edge_fleet_duplicates_total", Help: "Messages that were sent twice."})
	m.resumed = prometheus.NewCounter(prometheus.CounterOpts{Name: "edge_fleet_resumed_total", Help: "Connections whose TLS went on where that of the last one ended."})
	r.MustRegister(m.unanswered, m.reports, m.duplicates, m.resumed)
	gauge := func(name, help string, labels prometheus.Labels, value func() float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "edge_fleet_" + name, Help: help, ConstLabels: labels}, value))
	}
	const connections = "Edges by the state of their connection."
	gauge("connections", connections, prometheus.Labels{"state": "connected"}, func() float64 { return float64(f.connected.Load()) })
	gauge("connections", connections, prometheus.Labels{"state": "dialing"}, func() float64 { return float64(f.dialing.Load()) })
	gauge("connections", connections, prometheus.Labels{"state": "down"}, func() float64 {
		return float64(int64(len(f.edges)) - f.connected.Load() - f.dialing.Load())
	})
	gauge("until_connected_seconds", "From the first dial to when all edges were connected for the first time; 0: not yet.", nil, f.untilConnected)
	gauge("joined", "Edges that have their node.", nil, func() float64 { return float64(f.joined.Load()) })
	gauge("unconverged_objects", "Objects that an edge has not, has otherwise than the API server, or has though there is none.", nil, func() float64 {
		return float64(f.check.Count(maxAge))
	})
	for direction, bytes := range map[string]*atomic.Uint64{"up": &f.bytes.Sent, "down": &f.bytes.Received} {
		r.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "edge_fleet_bytes_total", Help: "Bytes of connections, with TLS, since their websocket was open.", ConstLabels: prometheus.Labels{"direction": direction},
		}, func() float64 { return float64(bytes.Load()) }))
	}
	return m
}

func (m *metrics) wasLate(d time.Duration) { m.late.WithLabelValues().Observe(d.Seconds()) }
