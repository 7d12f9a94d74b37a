package slo_test

import (
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// BenchmarkCollectAndJudge is what a call costs when it is judged: a million
// calls, 20,000 pods and 100 scrapes.
func BenchmarkCollectAndJudge(b *testing.B) {
	const calls = 1_000_000
	f := newFlight(b)
	rng := rand.New(rand.NewPCG(1, 2))
	ops := []record.Op{loadOp(), {Source: "load", Step: "away", Verb: "delete", Resource: "pods", Scope: "resource"},
		{Source: "fleet", Verb: "update", Resource: "leases.coordination.k8s.io", Scope: "resource"}}
	for i := range calls {
		f.call(ops[i%3], 10+float64(i)*80/calls, rng.ExpFloat64()/1e4, 0.001+rng.ExpFloat64()/100, record.OK)
		if i%50 == 0 {
			at := 10 + float64(i)*80/calls
			f.pod("g", "created", at, "bound", at+0.1, "running", at+0.2, "ready", at+0.3)
		}
		if i%10_000 == 0 {
			for _, resource := range []string{"pods", "nodes", "events", "leases"} {
				for _, verb := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
					f.histogram(10+float64(i)*80/calls, request{verb, "", resource, "", "resource"}, map[float64]int{0.03: i, 0.3: i / 100})
				}
			}
			f.scrape(10 + float64(i)*80/calls)
		}
	}
	f.objective(official())
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99.9", Max: new(1.0)})
	f.end(record.Done)
	repotest.NoError(b, f.w.Close())
	b.ReportAllocs()
	var r *run.Run
	for b.Loop() {
		r = collected(b, f.path, &f.sc, f.m)
		if j := judged(b, r); j.Verdict != slo.Pass {
			b.Fatal(j.Verdict, j.Reasons)
		}
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/calls, "ns/call")
	b.ReportMetric(float64(m.HeapAlloc)/calls, "B/call")
	runtime.KeepAlive(r)
}

func TestCollectRefusesAnotherFile(t *testing.T) {
	if _, err := run.Collect(filepath.Join(t.TempDir(), "none"), record.Manifest{}); err == nil {
		t.Error("a missing file was collected")
	}
}
