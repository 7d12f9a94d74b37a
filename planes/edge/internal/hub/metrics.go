package hub

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// metrics are the hub's own. The first has the name that KubeEdge gives it.
type metrics struct {
	connects, ended, messages, dropped, enrolments, syncCalls *prometheus.CounterVec
	reports                                                   *prometheus.CounterVec // of devices
	resends                                                   prometheus.Counter
	keepalives                                                prometheus.Counter // of messages: most of them, at rest
	handshake                                                 *prometheus.HistogramVec
	delivery, ack                                             *prometheus.HistogramVec
}

func newMetrics(h *Hub, r *instrument.Registry) *metrics {
	m := &metrics{
		connects:   r.CounterVec("edge_hub_connects_total", "Attempts of edges to connect, by how they went.", "result"),
		ended:      r.CounterVec("edge_hub_sessions_ended_total", "Sessions that ended, and why.", "reason"),
		messages:   r.CounterVec("edge_hub_messages_total", "Messages up from edges and down to them.", "direction", "operation", "resource"),
		dropped:    r.CounterVec("edge_hub_dropped_total", "Messages that were not handled, and why.", "reason"),
		enrolments: r.CounterVec("edge_hub_enrolments_total", "Answers of enrolment by path and status.", "path", "code"),
		syncCalls:  r.CounterVec("edge_hub_sync_calls_total", "Calls on ObjectSyncs and ClusterObjectSyncs.", "verb", "code"),
		reports:    r.CounterVec("edge_hub_device_reports_total", "Reports of devices, by what became of them.", "result"),
		resends:    r.Counter("edge_hub_resends_total", "Messages that were sent again, since no acknowledgement came."),
		handshake:  r.Histogram("edge_hub_handshake_seconds", "From a connection's acceptance to its open websocket."),
		delivery:   r.Histogram("edge_hub_delivery_seconds", "From the event at the hub to the edge's acknowledgement.", "resource"),
		ack:        r.Histogram("edge_hub_ack_seconds", "From when a message was first sent to its acknowledgement.", "resource"),
	}
	m.keepalives = m.messages.WithLabelValues("up", message.Keepalive, message.TypeNode)
	r.GaugeFunc("KubeEdge_CloudHub_connected_nodes", "Edges that are connected.", func() float64 { return float64(h.sessions.len()) })
	r.GaugeFunc("edge_hub_queue_depth", "Messages that wait to be sent or acknowledged.", func() float64 { return float64(h.sessions.queueDepth()) })
	r.GaugeFunc("edge_hub_upstream_depth", "Messages of edges that wait for a worker.", func() float64 { return float64(h.upstream.queueDepth()) })
	r.GaugeFunc("edge_hub_foreign_queues", "Edges that hang at another hub, and for which this one made a queue.", func() float64 { return float64(h.sessions.foreignLen()) })
	r.ShowAll(prometheus.CounterValue, "edge_hub_bytes_total", "Bytes of connections, with TLS, since their websocket was open.", []string{"direction"},
		func(show func(float64, ...string)) {
			show(float64(h.bytes.Sent.Load()), "down")
			show(float64(h.bytes.Received.Load()), "up")
		})
	return m
}

// countCall counts one call on a Sync and returns its error.
func (m *metrics) countCall(verb string, err error) error {
	code := "200"
	var status apierrors.APIStatus
	switch {
	case err == nil:
	case errors.As(err, &status):
		code = strconv.Itoa(int(status.Status().Code))
	default:
		code = "<error>"
	}
	m.syncCalls.WithLabelValues(verb, code).Inc()
	return err
}
