package slo_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/scenario"
	"github.com/windtunnel/windtunnel/slo"
)

// TestTenMillionCalls holds the promise that ten million calls are judged in
// under a minute and a gigabyte. It writes 150 MB.
func TestTenMillionCalls(t *testing.T) {
	if testing.Short() || os.Getenv("WINDTUNNEL_ACCURACY") == "" {
		t.Skip("takes half a minute; set WINDTUNNEL_ACCURACY=1")
	}
	const calls = 10_000_000
	f := newFlight(t)
	rng := rand.New(rand.NewPCG(1, 2))
	op := f.w.Op(loadOp())
	for i := range calls {
		due := at(runBegin + float64(i)*80/calls)
		sent := due.Add(time.Duration(rng.ExpFloat64() * 1e5))
		f.w.Call(record.Call{Op: op, Due: due, Sent: sent, Done: sent.Add(time.Duration(1e6 + rng.ExpFloat64()*1e7)), Code: 201})
	}
	for i := range 200_000 {
		at := 10 + float64(i)/5000
		f.pod("g", "created", at, "bound", at+0.1, "running", at+0.2, "ready", at+0.3)
	}
	f.quickRequests()
	f.objective(official())
	f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99.9", Max: ptr(1)})
	f.end("done")
	if err := f.w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil {
		t.Log("the peak cannot be reset; it holds the writing too:", err)
	}
	watch := clock.Start()
	facts, err := slo.Collect(f.path)
	if err != nil {
		t.Fatal(err)
	}
	collected := time.Duration(watch.Now())
	j := slo.Judge(&f.sc, f.m, facts)
	took := time.Duration(watch.Now())
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ = strings.Cut(strings.TrimSpace(peak), "\n")
	t.Logf("collected in %v, judged in %v, peak %s: %s", collected, took, peak, j.Verdict)
	if took > time.Minute || j.Verdict != slo.Pass {
		t.Errorf("took %v, verdict %s %q", took, j.Verdict, j.Reasons)
	}
	if len(strings.Fields(peak)[0]) > 6 {
		t.Errorf("peak resident size %s, want less than a million kB", peak)
	}
}
