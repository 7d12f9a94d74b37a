package scrape_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/series"
)

// BenchmarkFirstSight is the cost of points that were never seen before, which
// each scrape of a plane that grows has some of.
func BenchmarkFirstSight(b *testing.B) {
	a := newAPIServer(20)
	for b.Loop() {
		t := series.NewTracker(func(name string) bool {
			return len(name) > 22 && name[:22] == "apiserver_request_sli_" || name[:5] == "etcd_"
		})
		if err := t.Update(a.body, func(int, float64) {}); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(t.Len()), "points")
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/5200, "µs/point")
}
