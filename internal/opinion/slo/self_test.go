package slo_test

import (
	"math"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestSelf(t *testing.T) {
	f := newFlight(t)
	f.usage() // a plane of 30 CPU seconds and peaks of 1.1 GB and 2.1 GB, an instrument of 3 and 0.4 GB
	f.calls(200)
	f.metrics()
	f.event(30, record.EventWatchGap, "pods", "410")
	for i := range 9 {
		f.scraped("kube-scheduler", 10+5*float64(i))
	}
	f.sample(10, "kube-scheduler", "scheduler_pending_pods", 0)
	f.event(55, record.EventScrapeFailed, "kube-scheduler", "timeout")
	f.scraped("kube-scheduler", 75, 80, 85) // 55 failed, 60, 65 and 70 did not come
	f.end(record.Done)
	s := f.judge().Self
	for name, tt := range map[string]struct{ got, want float64 }{
		"cpu share":    {s.CPUShare, 0.1},
		"memory share": {s.MemoryShare, 0.4 / 3.2},
		"watch gaps":   {float64(s.WatchGaps), 1},
		"watch lag":    {*s.WatchLagMaxSeconds, 0.3},
		"p99 of lag":   {*s.WatchLagP99Seconds, 0.3},
		"lost":         {float64(s.ScrapesLost), 1},
	} {
		if math.Abs(tt.got-tt.want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, tt.got, tt.want)
		}
	}
	if s.ScrapesLate < 4 {
		t.Errorf("%d scrapes were late", s.ScrapesLate)
	}
}

// TestHoles says that a run with too few scrapes is unknown, but not one in
// which they failed for a fault made on purpose.
func TestHoles(t *testing.T) {
	for _, fault := range []bool{false, true} {
		f := newFlight(t)
		f.calls(200)
		f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Name: "calls", Max: new(1.0)})
		for i := range 8 {
			f.scraped("etcd", 11+5*float64(i))
			f.event(60+5*float64(i), record.EventScrapeFailed, "etcd", "timeout")
		}
		f.sample(12, "etcd", "etcd_mvcc_db_total_size_in_bytes", 1)
		if fault {
			f.event(59, record.EventFault, "etcd", "paused")
		}
		f.end(record.Done)
		j := f.judge()
		want := slo.Unknown
		if fault {
			want = slo.Pass
		}
		if said := strings.Contains(strings.Join(j.Reasons, " "), "The metrics of etcd are full of holes: of 15 scrapes 8 failed"); j.Verdict != want || said == fault {
			t.Errorf("with a fault %v: %s, %q", fault, j.Verdict, j.Reasons)
		}
	}
}

func TestUncleanNote(t *testing.T) {
	f := newFlight(t)
	f.event(5, record.EventDirty, "terminating", "1 pods terminating, held by finalizer x/y (n/a)")
	f.event(5, record.EventDirty, "host", "other processes take 20 % of this machine's CPU")
	f.calls(200)
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Name: "calls", Max: new(1.0)})
	f.end(record.Done)
	j := f.judge()
	want := "The plane was not clean when the run began: 1 pods terminating, held by finalizer x/y (n/a); other processes take 20 % of this machine's CPU."
	if j.Verdict != slo.Pass || len(j.Reasons) == 0 || j.Reasons[0] != want {
		t.Errorf("%s, %q", j.Verdict, j.Reasons)
	}
}
