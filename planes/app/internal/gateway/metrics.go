package gateway

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// metrics are cluster-gateway's by name. Its histogram has the member as a label
// too: of two hundred members that would be a hundred thousand series, so that the
// members are told apart by their counter alone.
type metrics struct {
	took       *prometheus.HistogramVec
	byCluster  *prometheus.CounterVec
	byResource *prometheus.CounterVec
	ways       *prometheus.CounterVec
}

func newMetrics(r *instrument.Registry) *metrics {
	m := &metrics{
		took:       r.Histogram("ocm_proxy_proxied_request_duration_seconds", "Time that members took for a request, without the gateway's own.", "resource", "verb", "code"),
		byCluster:  r.CounterVec("ocm_proxy_proxied_requests_by_cluster_total", "Requests by member.", "cluster", "code"),
		byResource: r.CounterVec("ocm_proxy_proxied_resource_requests_by_resource_total", "Requests by what they are for.", "resource", "verb", "code"),
		ways:       r.CounterVec("cluster_gateway_requests_total", "Requests by the way they came: aggregated, through the hub's API server, or direct.", "way"),
	}
	for _, way := range []string{wayAggregated, wayDirect} {
		m.ways.WithLabelValues(way) // a way that nobody takes counts nothing, which is not the same as not being counted
	}
	return m
}
