package kubelet

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// BenchmarkState says what a pod costs that metrics are told of.
func BenchmarkState(b *testing.B) {
	s := idle(b, resourceMetrics(b), &world{})
	words := s.rules.Load().words
	raws := make([][]byte, 10000)
	for i := range raws {
		raw := repotest.Must(fullPod(fmt.Sprintf("pod-%d", i), fmt.Sprintf("node-%03d", i%500)).Marshal())(b)
		raws[i] = raw
	}
	b.ReportAllocs()
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		state := newState(words)
		for _, raw := range raws {
			if _, err := state.keepPodLocked(watch.Event{Kind: watch.Added, Object: raw}); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(len(raws)), "B/pod")
		runtime.KeepAlive(state)
	}
	b.ReportMetric(float64(len(raws[0])), "B/pod-whole")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(raws)), "ns/pod")
}
