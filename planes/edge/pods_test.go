package edge_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/edge/internal/fleet"
	"github.com/windtunnel/windtunnel/planes/edge/internal/hub"
)

// BenchmarkPods starts b.N pods on 20 joined edges: hub, edges and an API server in memory,
// in one process. cpu-us/pod is the CPU time of all three from the creation of a pod
// until all pods run and are acknowledged.
func BenchmarkPods(b *testing.B) {
	for name, change := range presets() {
		b.Run("preset="+name, func(b *testing.B) { startPods(b, change) })
	}
}

func startPods(b *testing.B, change func(*hub.Options)) {
	const edges, syncs = 20, "/apis/reliablesyncs.kubeedge.io/v1alpha1/objectsyncs"
	r := newRig(b)
	r.hub(func(o *hub.Options) {
		if change != nil {
			change(o)
		}
		o.Round, o.ResendAfter = time.Hour, time.Minute
	})
	r.fleet(edges, func(o *fleet.Options) { o.Lease, o.Status = 0, 0 })
	repotest.Eventually(b, "all edges join", func() bool { return len(r.server.Nodes()) == edges })
	b.ReportAllocs()
	cpu := used(b)
	b.ResetTimer()
	for i := range b.N {
		p := apitest.Pod(fmt.Sprintf("p%d", i), fmt.Sprintf("edge-%d", i%edges))
		p.Spec.Containers = []corev1.Container{{Name: "app"}}
		r.server.AddPod(p)
	}
	for len(r.server.Names(syncs)) < b.N || r.running() < b.N {
		time.Sleep(time.Second) // each look copies all pods, which is to cost nothing beside them
	}
	b.StopTimer()
	b.ReportMetric(float64((used(b)-cpu).Microseconds())/float64(b.N), "cpu-us/pod")
}
