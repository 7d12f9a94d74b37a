package fleet

import (
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
	m := &metrics{
		dials:      r.CounterVec("edge_fleet_dials_total", "Attempts to connect, by how they went.", "result"),
		ended:      r.CounterVec("edge_fleet_connections_ended_total", "Connections that ended, and how.", "reason"),
		applied:    r.CounterVec("edge_fleet_applied_total", "Objects that hubs sent, by what they were to the edge.", "result"),
		refused:    r.CounterVec("edge_fleet_refused_total", "Requests that were answered with an error.", "request"),
		unanswered: r.Counter("edge_fleet_unanswered_total", "Requests that nobody answered within three minutes."),
		back:       r.Histogram("edge_fleet_back_seconds", "From the loss of a connection to the next."),
		request:    r.Histogram("edge_fleet_request_seconds", "From an edge's request to its answer.", "resource"),
		started:    r.Histogram("edge_fleet_pod_start_seconds", "From a pod's arrival at the edge to when it runs there."),
		late:       r.Histogram("edge_fleet_late_seconds", "By how much the fleet itself was late with what an edge had to do."),
		reports:    r.Counter("edge_fleet_device_reports_total", "Reports that devices have sent."),
		duplicates: r.Counter("edge_fleet_duplicates_total", "Messages that were sent twice."),
		resumed:    r.Counter("edge_fleet_resumed_total", "Connections whose TLS went on where that of the last one ended."),
	}
	r.ShowAll(prometheus.GaugeValue, "edge_fleet_connections", "Edges by the state of their connection.", []string{"state"}, func(show func(float64, ...string)) {
		connected, dialing := f.connected.Load(), f.dialing.Load()
		show(float64(connected), "connected")
		show(float64(dialing), "dialing")
		show(float64(int64(len(f.edges))-connected-dialing), "down")
	})
	r.GaugeFunc("edge_fleet_until_connected_seconds", "From the first dial to when all edges were connected for the first time; 0: not yet.", f.untilConnected)
	r.GaugeFunc("edge_fleet_joined", "Edges that have their node.", func() float64 { return float64(f.joined.Load()) })
	r.GaugeFunc("edge_fleet_unconverged_objects", "Objects that an edge has not, has otherwise than the API server, or has though there is none.", func() float64 {
		return float64(f.check.Count(maxAge))
	})
	r.ShowAll(prometheus.CounterValue, "edge_fleet_bytes_total", "Bytes of connections, with TLS, since their websocket was open.", []string{"direction"},
		func(show func(float64, ...string)) {
			show(float64(f.bytes.Sent.Load()), "up")
			show(float64(f.bytes.Received.Load()), "down")
		})
	return m
}

func (m *metrics) wasLate(d time.Duration) { m.late.WithLabelValues().Observe(d.Seconds()) }
