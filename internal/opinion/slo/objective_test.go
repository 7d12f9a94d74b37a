package slo_test

import (
	"math"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestObjectives(t *testing.T) {
	type labels = map[string]string
	fly := func(f *flight) {
		f.pods("g", 500, 0.4) // created 20..29.98, running 20.4..30.38
		for i := range 1000 {
			f.call(loadOp(), 20+float64(i)/100, 0.05, 0.06+float64(i)/10_000, record.OK)
		}
		for range 5 {
			f.call(record.Op{Source: "load", Step: "away", Verb: "delete", Resource: "pods"}, 40, 0, 0.2, record.Failed)
			f.call(record.Op{Source: "load", Step: "away", Verb: "delete", Resource: "pods"}, 40, 0, 30, record.Unknown)
			f.call(record.Op{Source: "fleet", Verb: "create", Resource: "pods"}, 40, 0, 99, record.OK)
		}
		f.histogram(50, request{"POST", "", "pods", "", "resource"}, map[float64]int{0.03: 900, 0.3: 100})
		f.histogram(50, request{"POST", "apps", "deployments", "", "resource"}, map[float64]int{1.1: 1000})
		f.histogram(50, request{"WATCH", "", "pods", "", "cluster"}, map[float64]int{50: 1000})
	}
	for _, c := range []struct {
		name  string
		o     scenario.Objective
		value float64
		want  slo.Verdict
		warns string
	}{
		{"startup of all groups", scenario.Objective{SLI: "pod-startup", Statistic: "p50", Max: new(1.0)}, 0.4, slo.Pass, ""},
		{"one phase", scenario.Objective{SLI: "pod-startup", Statistic: "p99", Labels: labels{"group": "g", "phase": "bound..ready"}, Max: new(0.1)}, 0.21, slo.Fail, ""},
		{"the longest", scenario.Objective{SLI: "pod-startup", Statistic: "max", Max: new(1.0)}, 0.4, slo.Pass, ""},
		{"the mean", scenario.Objective{SLI: "pod-startup", Statistic: "mean", Max: new(0.3)}, 0.4, slo.Fail, ""},
		{"calls from their due time", scenario.Objective{SLI: "call-latency", Statistic: "p50", Labels: labels{"step": "fill"}, Max: new(1.0)}, 0.1099, slo.Pass, ""},
		{"p99 of calls", scenario.Objective{SLI: "call-latency", Statistic: "p99", Labels: labels{"verb": "create"}, Max: new(0.1)}, 0.1589, slo.Fail, ""},
		{"calls near the bound", scenario.Objective{SLI: "call-latency", Statistic: "p50", Labels: labels{"verb": "create"}, Max: new(0.11)}, 0.1099, slo.Pass, "another run may fall"},
		{"calls without an answer", scenario.Objective{SLI: "call-latency", Statistic: "p99", Labels: labels{"verb": "delete"}, Max: new(60.0)}, 30, slo.Unknown, "5 of 10 calls had no answer"},
		{"and a bound that they broke", scenario.Objective{SLI: "call-latency", Statistic: "max", Labels: labels{"step": "away"}, Max: new(29.0)}, 30, slo.Fail, "5 of 10 calls failed"},
		{"the server, one resource", scenario.Objective{SLI: "server-latency", Statistic: "p90", Labels: labels{"verb": "create", "resource": "pods"}, Max: new(0.1)}, 0.05, slo.Pass, ""},
		{"the bound inside a bucket", scenario.Objective{SLI: "server-latency", Statistic: "p99", Labels: labels{"verb": "create", "resource": "pods"}, Max: new(0.3)}, 0.38, slo.Unknown, "between 0.2 and 0.4"},
		{"the server, all together, no streams", scenario.Objective{SLI: "server-latency", Statistic: "max", Max: new(2.0)}, 1.25, slo.Pass, ""},
		{"the server's mean", scenario.Objective{SLI: "server-latency", Statistic: "mean", Labels: labels{"resource": "pods"}, Max: new(1.0)}, 0.057, slo.Pass, ""},
		{"rate", scenario.Objective{SLI: "pods-running-rate", Statistic: "mean", Labels: labels{"group": "g"}, Min: new(40.0)}, 500 / 10.38, slo.Pass, ""},
		{"rate too low", scenario.Objective{SLI: "pods-running-rate", Statistic: "mean", Min: new(50.0)}, 500 / 10.38, slo.Fail, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlight(t)
			f.sc.FailedCalls = scenario.Ignore
			f.objective(c.o)
			fly(f)
			f.end(record.Done)
			r := f.judge().Objectives[0]
			if r.Verdict != c.want || r.Value == nil || math.Abs(*r.Value-c.value) > 1e-6 {
				t.Errorf("%+v, want %s with %v", r, c.want, c.value)
				if r.Value != nil {
					t.Errorf("value %v", *r.Value)
				}
			}
			warned := strings.Join(r.Warnings, "; ")
			if (c.warns == "") != (warned == "") || !strings.Contains(warned, c.warns) {
				t.Errorf("warnings %q, want %q", r.Warnings, c.warns)
			}
		})
	}
}

func TestMeasures(t *testing.T) {
	f := newFlight(t)
	f.objective(scenario.Objective{SLI: "pod-startup", Statistic: "p99", Max: new(5.0)})
	f.usage()
	f.pods("satu-ration", 500, 0.4)
	f.pods("latency", 100, 0.2)
	for range 10 {
		f.pod("latency", "created", 30.0, "running", 30.2, "deleting", 35.0, "deleted", 35.5)
	}
	f.calls(101)
	for range 100 {
		f.call(record.Op{Source: "fleet", Verb: "patch", Resource: "pods", Subresource: "status"}, 30, 0.25, 0.3, record.OK)
	}
	f.call(loadOp(), 50, 0.3, 0.4, record.Failed)
	f.end(record.Done)
	j := f.judge()
	for key, want := range map[string]slo.Measure{
		"plane_ready_seconds":                     {Value: 3.1, Unit: "seconds"},
		"fleet_ready_seconds":                     {Value: 7, Unit: "seconds"},
		"nodes":                                   {Value: 10, Unit: "nodes"},
		"run_seconds":                             {Value: 90, Unit: "seconds"},
		"calls_total":                             {Value: 102, Unit: "calls"},
		"calls_failed":                            {Value: 1, Unit: "calls"},
		"calls_unknown":                           {Value: 0, Unit: "calls"},
		"achieved_rate_fill":                      {Value: 100, Unit: "calls/s"},
		"call_latency_p99_seconds_fill":           {Value: 0.01, Unit: "seconds"},
		"service_latency_p50_seconds_fill":        {Value: 0.01, Unit: "seconds"},
		"fleet_lateness_p99_seconds":              {Value: 0.25, Unit: "seconds"},
		"pods_created":                            {Value: 610, Unit: "pods"},
		"pods_running_latency":                    {Value: 110, Unit: "pods"},
		"pods_deleted_latency":                    {Value: 10, Unit: "pods"},
		"pods_running_per_second_satu_ration":     {Value: 500 / 10.38, Unit: "pods/s"},
		"pods_deleted_per_second":                 {Value: 20, Unit: "pods/s"},
		"pod_startup_p50_seconds_satu_ration":     {Value: 0.4, Unit: "seconds"},
		"pod_startup_p99_seconds":                 {Value: 0.4, Unit: "seconds"},
		"create_to_bound_p50_seconds_latency":     {Value: 0.1, Unit: "seconds"},
		"bound_to_running_p99_seconds":            {Value: 0.2, Unit: "seconds"},
		"running_to_ready_p90_seconds":            {Value: 0.01, Unit: "seconds"},
		"deleting_to_deleted_p99_seconds":         {Value: 0.5, Unit: "seconds"},
		"cpu_seconds_kube_apiserver":              {Value: 20, Unit: "seconds"},
		"cpu_seconds_plane":                       {Value: 30, Unit: "seconds"},
		"cpu_ms_per_pod_etcd":                     {Value: 10_000.0 / 610, Unit: "ms/pod"},
		"cpu_ms_per_pod_windtunnel":               {Value: 3_000.0 / 610, Unit: "ms/pod"},
		"peak_rss_bytes_kube_apiserver":           {Value: 2.1e9, Unit: "bytes"},
		"instrument_cpu_share":                    {Value: 0.1, Unit: "ratio"},
		"deleting_to_deleted_p50_seconds_latency": {Value: 0.5, Unit: "seconds"},
	} {
		got, ok := j.Measures[key]
		if !ok || math.Abs(got.Value-want.Value) > 1e-6*math.Max(1, want.Value) || got.Unit != want.Unit {
			t.Errorf("%s = %+v (present: %v), want %+v", key, got, ok, want)
		}
	}
	if _, ok := j.Measures["deleting_to_deleted_p50_seconds_satu_ration"]; ok {
		t.Error("a measure of nothing has an entry")
	}
	want := slo.Self{CPUSeconds: 3, MaxRSSBytes: 400e6, LateCalls: 1, MaxLatenessSeconds: 0.3, CPUShare: 0.1, MemoryShare: 0.125}
	if math.Abs(j.Self.MaxLatenessSeconds-0.3) < 1e-9 {
		j.Self.MaxLatenessSeconds = 0.3
	}
	if j.Self != want {
		t.Errorf("self = %+v, want %+v", j.Self, want)
	}
}
