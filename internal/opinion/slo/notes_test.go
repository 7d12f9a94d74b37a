package slo_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// What does not spoil a run is said nevertheless.
func TestNotes(t *testing.T) {
	for _, c := range []struct {
		name string
		fly  func(*flight)
		says string
	}{
		{"failed calls", func(f *flight) { f.call(loadOp(), 50, 0, 0.1, record.Failed) }, "1 of the load's 1001 calls failed."},
		{"calls without an answer", func(f *flight) { f.call(loadOp(), 50, 0, 30, record.Unknown) }, "1 of the load's 1001 calls had no answer."},
		{"an interrupted watch", func(f *flight) { f.event(50, record.EventWatchGap, "pods", "410 Gone") }, "windtunnel's own watch was interrupted once;"},
		{"failed scrapes", func(f *flight) {
			f.event(50, record.EventScrapeFailed, "etcd", "x")
			f.event(55, record.EventScrapeFailed, "etcd", "x")
		}, "The metrics of etcd could not be read 2 times."},
		{"a closed loop", func(f *flight) {
			f.w.Event(record.Event{At: at(20), Type: record.EventLoadAsked, Name: "pool", Detail: record.Detail{Count: 1000, Parallel: 8}})
		}, "Step pool kept 8 calls at a time (a closed loop): its latencies are service times,"},
		{"closed loops", func(f *flight) {
			for i, name := range []string{"pool-1", "pool-2", "pool-3"} {
				f.w.Event(record.Event{At: at(20), Type: record.EventLoadAsked, Name: name, Detail: record.Detail{Count: 1000, Parallel: 8 << i}})
			}
		}, "3 steps (pool-1 to pool-3) kept 8 to 32 calls at a time (closed loops): their latencies are service times,"},
		{"a restart", func(f *flight) {
			f.sample(9, "kube-apiserver", "process_start_time_seconds", 1000)
			f.sample(50, "kube-apiserver", "process_start_time_seconds", 2000)
		}, "kube-apiserver was started anew once"},
		{"a balancer without a server", func(f *flight) {
			f.event(40, record.EventNoServer, "balancer", "")
			f.event(43.5, record.EventServerReady, "balancer", "")
			f.event(60, record.EventNoServer, "balancer", "")
			f.event(61, record.EventServerReady, "balancer", "")
		}, "The balancer found no API server ready 2 times, from 40.0 s on, for 4.5 s in all: it refused new connections,"},
		{"a balancer without a server until the end", func(f *flight) { f.event(90, record.EventNoServer, "balancer", "") },
			"The balancer found no API server ready once, from 90.0 s on, for 10.0 s in all:"},
		{"a disk that stood still", func(f *flight) {
			f.sample(9, "windtunnel", run.StalledSeries, 0)
			f.sample(50, "windtunnel", run.StalledSeries, 1.25)
		}, "windtunnel waited 1.2 s for the disk that its records go to"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			f.sc.FailedCalls = scenario.Ignore
			f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Max: new(1.0)})
			f.calls(1000)
			c.fly(f)
			f.end(record.Done)
			j := f.judge()
			if j.Verdict != slo.Pass || len(j.Reasons) != 1 || !strings.Contains(j.Reasons[0], c.says) {
				t.Errorf("verdict %s, reasons %q, want a pass and %q", j.Verdict, j.Reasons, c.says)
			}
		})
	}
}

// Behind a load balancer each scrape may meet another server: the differences
// of their counters mean nothing.
func TestSeveralServersCannotBeJudged(t *testing.T) {
	f := newFlight(t)
	f.objective(official())
	f.objective(scenario.Objective{SLI: "server-latency", Statistic: "p99", Max: new(1.0)})
	f.pods("g", 500, 0.4)
	f.quickRequests()
	for i, start := range []float64{1000, 2000, 1000} {
		f.sample(30+float64(i), "kube-apiserver", "process_start_time_seconds", start)
	}
	f.end(record.Done)
	j := f.judge()
	if j.Verdict != slo.Unknown || !strings.Contains(j.Reasons[0], "several API servers") {
		t.Errorf("verdict %s, reasons %q", j.Verdict, j.Reasons)
	}
	for _, name := range []string{"API calls", "server-latency"} {
		if r := find(t, j, name, nil); r.Verdict != slo.Unknown || r.Value != nil {
			t.Errorf("%+v", r)
		}
	}
}

// Pods that the load created by itself and that nobody saw are not left out.
func TestCreatedPodsThatNobodySaw(t *testing.T) {
	f := newFlight(t)
	f.sc.Steps = []scenario.Step{{Name: "fill", Create: &scenario.Create{Group: "g", Count: 1000}}}
	f.objective(scenario.Objective{SLI: "pod-startup", Statistic: "p99", Max: new(5.0)})
	f.calls(1000)
	f.pods("g", 950, 0.5)
	f.end(record.Done)
	j := f.judge()
	if r := j.Objectives[0]; j.Verdict != slo.Unknown || r.Samples != 1000 || !strings.Contains(r.Warnings[0], "50 of the 1000 pods of group g were never seen created") {
		t.Errorf("verdict %s, %+v", j.Verdict, r)
	}
}

// A machine that does other work is said, and measured.
func TestNoisyHost(t *testing.T) {
	for _, c := range []struct {
		name        string
		user, steal float64 // seconds of all cores in the run's 90 s of two cores; plane and windtunnel used 33
		members     float64 // of them, of processes of members
		allowed     float64 // to other processes; 0: as by default
		says        []string
		miss        slo.Verdict // of an objective
	}{
		{"quiet", 45, 3, 0, 0, nil, slo.Fail},
		{"other processes", 33 + 36, 0, 0, 0, []string{"Other processes took 20 % of this machine's CPU"}, slo.Unknown},
		{"other machines", 33, 18, 0, 0, []string{"The hypervisor kept 10 % of this machine's CPU"}, slo.Unknown},
		{"other processes that may", 33 + 36, 0, 0, 0.25, []string{"Other processes used 20 % of the CPU; up to 25 % was accepted (default 10 %)."}, slo.Fail},
		{"other processes beyond what they may", 33 + 54, 0, 0, 0.25, []string{"Other processes took 30 %", "up to 25 % was accepted"}, slo.Unknown},
		{"none where none may", 33, 0, 0, 0.01, []string{"Other processes used 0 % of the CPU; up to 1 % was accepted (default 10 %)."}, slo.Fail},
		{"the run's own members", 33 + 36, 0, 36, 0, nil, slo.Fail},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			f.m.MaxNeighbours = c.allowed
			f.objective(scenario.Objective{SLI: "call-latency", Statistic: "p99", Max: new(1.0)})
			f.usage()
			for mode, v := range map[string]float64{"user": c.user, "steal": c.steal, "idle": 180 - c.user - c.steal} {
				label := record.Label{Name: "mode", Value: mode}
				f.sample(9.5, "host", "host_cpu_seconds_total", 1000, label)
				f.sample(99.5, "host", "host_cpu_seconds_total", 1000+v, label)
			}
			if c.members > 0 {
				f.sample(9.5, "hollow-far", "process_cpu_seconds_total", 1)
				f.sample(99.5, "hollow-far", "process_cpu_seconds_total", 1+c.members)
			}
			f.sample(9, "etcd", "cgroup_cpu_throttled_seconds_total", 1)
			f.sample(50, "etcd", "cgroup_cpu_throttled_seconds_total", 4)
			f.calls(1000)
			f.end(record.Done)
			j := f.judge()
			if j.Verdict != slo.Pass || len(j.Reasons) != len(c.says) || len(c.says) > 0 && !strings.Contains(j.Reasons[0], c.says[0]) {
				t.Errorf("verdict %s, reasons %q, want %q", j.Verdict, j.Reasons, c.says)
			}
			f.sc.Objectives[0].Max = new(1e-9) // missed: whose fault it is shows on a quiet machine only
			if got := f.judge().Verdict; got != c.miss {
				t.Errorf("a miss on this machine is %s, want %s", got, c.miss)
			}
			if got := j.Measures["host_busy_share"].Value; got < c.user/180-0.001 || got > c.user/180+0.001 {
				t.Errorf("host_busy_share = %v", got)
			}
			if got := j.Measures["cpu_throttled_seconds_etcd"].Value; got != 3 {
				t.Errorf("cpu_throttled_seconds_etcd = %v", got)
			}
		})
	}
}
