package edge_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument/instrumenttest"
	"github.com/windtunnel/windtunnel/planes/internal/kit/planetest"
)

// BenchmarkConnect enrols and connects edges: both ends, in one process. What lives of
// each then is its B/edge.
func BenchmarkConnect(b *testing.B) {
	for _, transport := range []string{fleet.TransportWebsocket, fleet.TransportQUIC} {
		for _, certificates := range []string{fleet.CertificatesOwn, fleet.CertificatesShared} {
			b.Run("transport="+transport+"/certificates="+certificates, func(b *testing.B) { connect(b, transport, certificates) })
		}
	}
}

// connect connects b.N edges; a run of 1 is too short to say anything.
func connect(b *testing.B, transport, certificates string) {
	r := newRig(b)
	r.hub(func(o *hub.Options) { improved(o); o.NodeLimit, o.QUIC = b.N+1, true })
	o := r.fleetOptions(b.N)
	o.JoinRate, o.Certificates, o.Nodes, o.Transport = 1e6, certificates, false, transport
	before := live()
	b.ResetTimer()
	stop := planetest.Start(r.t, func(ctx context.Context) error { return fleet.Run(ctx, o) })
	repotest.Eventually(b, "all are connected", func() bool { return connectedOf(b, o.Registry) == b.N })
	b.StopTimer()
	b.ReportMetric(float64(live()-before)/float64(b.N), "B/edge")
	stop()
}

// live returns the bytes of heap and stacks that live.
func live() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// connectedOf reads how many edges a fleet has connected.
func connectedOf(t testing.TB, r *instrument.Registry) int {
	t.Helper()
	return int(instrumenttest.Measured(t, r, "edge_fleet_connections", "state=connected").Value)
}

// BenchmarkKeepalive sends b.N keepalives of resting edges: both ends, in one process. As
// many as go, and 670 a second, as a hub of 10,000 edges gets them: each wakes somebody up
// then. Beside the time it says how much CPU each takes, garbage and waiting included.
func BenchmarkKeepalive(b *testing.B) {
	for _, transport := range []string{fleet.TransportWebsocket, fleet.TransportQUIC} {
		b.Run("pace=most/transport="+transport, func(b *testing.B) { rest(b, transport, 500, 20*time.Millisecond) })
		b.Run("pace=670/transport="+transport, func(b *testing.B) { rest(b, transport, 2000, 3*time.Second) })
	}
}

func rest(b *testing.B, transport string, edges int, every time.Duration) {
	r, hubs := newRig(b), instrument.New("")
	r.hub(func(o *hub.Options) { improved(o); o.Registry, o.QUIC, o.NodeLimit = hubs, true, edges })
	o := r.fleetOptions(edges)
	o.JoinRate, o.Certificates, o.Nodes, o.Keepalive, o.Transport = 1e6, fleet.CertificatesShared, false, every, transport
	stop := planetest.Start(r.t, func(ctx context.Context) error { return fleet.Run(ctx, o) })
	repotest.Eventually(b, "all are connected", func() bool { return connectedOf(b, o.Registry) == edges })
	before, cpu := keepalives(b, hubs), used(b)
	b.ResetTimer()
	sent := 0
	for sent < b.N {
		time.Sleep(100 * time.Millisecond)
		sent = keepalives(b, hubs) - before
	}
	b.StopTimer()
	b.ReportMetric(float64((used(b)-cpu).Microseconds())/float64(sent), "cpu-us/keepalive")
	stop()
}

// used returns the CPU time of the process so far.
func used(t testing.TB) time.Duration {
	var u unix.Rusage
	repotest.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// keepalives reads how many a hub has had.
func keepalives(t testing.TB, r *instrument.Registry) int {
	t.Helper()
	return int(instrumenttest.Measured(t, r, "edge_hub_messages_total", "operation=keepalive").Value)
}
