package edge_test

import (
	"context"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/subject/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
)

// BenchmarkConnect enrols and connects edges: both ends, in one process.
func BenchmarkConnect(b *testing.B) {
	for _, certificates := range []string{fleet.CertificatesOwn, fleet.CertificatesShared} {
		b.Run("certificates="+certificates, func(b *testing.B) { connect(b, certificates) })
	}
}

// connect connects b.N edges; a run of 1 is too short to say anything.
func connect(b *testing.B, certificates string) {
	r := newRig(b)
	r.hub(func(o *hub.Options) { improved(o); o.NodeLimit = b.N + 1 })
	registry := instrument.New("edge_fleet")
	var o = fleet.Default()
	o.Registry, o.Clock, o.Log = registry, clock.Start(), quiet()
	o.Config = r.server.Endpoint().Config("edge-fleet-test")
	o.Edges, o.Shards, o.JoinRate, o.Certificates, o.Nodes = b.N, 1, 1e6, certificates, false
	b.ResetTimer()
	stop := r.start(func(ctx context.Context) error {
		return fleet.Run(ctx, o, func(_ []instrument.Route, work func() error) error { return work() })
	})
	repotest.Eventually(b, "all are connected", func() bool { return connectedOf(b, registry) == b.N })
	b.StopTimer()
	stop()
}

// connectedOf reads how many edges a fleet has connected.
func connectedOf(t testing.TB, r *instrument.Registry) int {
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "edge_fleet_connections" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == "connected" {
				return int(m.GetGauge().GetValue())
			}
		}
	}
	return 0
}
