package reporttest

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

func newManifest(s Shape) record.Manifest {
	return record.Manifest{
		Format: record.Format, Scenario: s.Name + s.Taint, File: s.Name + ".yaml" + s.Taint,
		Command:    []string{"windtunnel", "run", "examples/density.yaml", "--set", fmt.Sprintf("nodes=%d", s.Nodes), "--seed", "1" + s.Taint},
		Parameters: map[string]any{"nodes": s.Nodes, "podsPerNode": s.Pods / s.Nodes, "note": "none" + s.Taint, "rate": s.Asked},
		Seed:       1, Started: time.Date(2026, 9, 14, 10, 22, 5, 0, time.UTC),
		Versions: map[string]string{"windtunnel": "v0.1.0", "go": "go1.26.1", "kubernetes": "v1.37.1", "etcd": "3.7.0" + s.Taint},
		Machine: record.Machine{
			Cores: 2, CPU: "Example CPU @ 2.60GHz", MemoryBytes: 24 << 30,
			Kernel: "6.12.0", OS: "linux", Arch: "amd64", Cgroup: "v2",
		},
		Plane: record.PlaneFacts{
			Kind: "embedded", Durability: "memory", DataOn: "tmpfs", Ready: 3.104,
			Components: []record.ComponentFact{
				{Name: "etcd", Args: []string{"--unsafe-no-fsync", "--listen-client-urls=unix://localhost:0", "--quota-backend-bytes=8589934592"}},
				{
					Name: "kube-apiserver", Args: []string{"--authorization-mode=Node,RBAC", "--enable-priority-and-fairness=true", "--bind-address=127.0.0.1"},
					Env: []string{"GOGC=100"}, CPULimit: 1.5, MemoryLimit: 4 << 30, Limited: true,
				},
				{Name: "kube-controller-manager", Args: []string{"--leader-elect=false", "--use-service-account-credentials=true"}},
				{Name: "kube-scheduler", Args: []string{"--leader-elect=false" + s.Taint}},
			},
		},
		Fleet: record.FleetFacts{Nodes: s.Nodes, LeaseSeconds: 40, RenewEverySeconds: 10},
	}
}

func scenarioText(s Shape) string {
	lives := ""
	if s.Machines > 0 {
		lives = "lifecycles: [{use: vmi}]\n"
	}
	return "# " + strings.ReplaceAll(s.Taint, "\n", " ") + `
scenario: ` + s.Name + `
description: saturation pods at a rate, then latency pods, then deletion
parameters: {nodes: 100, podsPerNode: 30, rate: 100, note: none}
steps:
- pause: 1s
published:
  - measure: pod_startup_p99_seconds
    value: 1.787
    unit: seconds
    source: "An example of a published report, 2022"
    differences: 100,000 nodes on 128 cores; here far fewer on 2
  - measure: pods_running_rate
    value: 98
    unit: pods/s
    source: "An example of a published report, 2022"
    when: rate == 100
  - measure: pods_running_rate
    value: 980
    unit: pods/s
    source: "Of a larger machine, which is not shown"
    when: rate > 1000
` + lives
}

// Judgement invents a judgement with the objectives of the official SLOs: pass
// gives one that is met, fail one with misses and unknowns.
func Judgement(s Shape, pass bool) slo.Judgement {
	s = s.withDefaults()
	j := slo.Judgement{
		Scenario: s.Name, Verdict: slo.Pass,
		Measures: map[string]slo.Measure{
			"pod_startup_p50_seconds": {Value: 0.0412, Unit: "seconds"}, "pod_startup_p99_seconds": {Value: 0.2134, Unit: "seconds"},
			"pods_running_rate": {Value: 99.4, Unit: "pods/s"}, "plane_ready_seconds": {Value: 3.104, Unit: "seconds"},
			"calls_total": {Value: 645, Unit: "calls"}, "calls_failed": {Value: 0, Unit: "calls"},
			"cpu_ms_per_pod_kube_apiserver": {Value: 4.31, Unit: "ms"}, "peak_rss_bytes_kube_apiserver": {Value: 702e6, Unit: "bytes"},
			"offered_rate_saturation": {Value: 10.03, Unit: "calls/s"}, "achieved_rate_saturation": {Value: 10.01, Unit: "calls/s"},
			"nodes": {Value: float64(s.Nodes), Unit: "nodes"}, "run_seconds": {Value: 78.3, Unit: "seconds"},
		},
		Self: slo.Self{CPUSeconds: 3.91, MaxRSSBytes: 61 << 20, MaxLatenessSeconds: 0.00031, CPUShare: 0.041},
	}
	j.Objectives = append(j.Objectives, startupObjective(0.2134, [2]float64{0.1961, 0.2419}, s.Pods+s.Latency))
	for i, resource := range []string{
		"pods", "pods/status", "pods/binding", "events.events.k8s.io", "replicasets.apps", "replicasets.apps/status",
		"deployments.apps", "deployments.apps/status", "leases.coordination.k8s.io", "nodes", "nodes/status", "serviceaccounts", "namespaces", "configmaps",
	} {
		for k, verb := range []string{"POST", "PATCH", "DELETE"} {
			v := 0.0041 * float64(1+(i*7+k*3)%11) / 2
			j.Objectives = append(j.Objectives, callObjective("mutating calls", verb, resource, "resource", v, 1, 40+i*97))
		}
	}
	for i, resource := range []string{"pods", "nodes", "leases.coordination.k8s.io", "namespaces", "services"} {
		j.Objectives = append(j.Objectives,
			callObjective("reads of one object", "GET", resource, "resource", 0.002*float64(i+1), 1, 30+i*13),
			callObjective("lists of the cluster", "LIST", resource, "cluster", 0.021*float64(i+1), 30, 4+i))
	}
	if !pass {
		spoilJudgement(&j)
	}
	if s.Taint != "" {
		r := &j.Objectives[0]
		r.Name, r.Labels["group"], r.Warnings = r.Name+s.Taint, "g"+s.Taint, []string{"beware" + s.Taint}
		j.Scenario, j.Reasons = j.Scenario+s.Taint, append(j.Reasons, "because"+s.Taint)
		j.Measures["odd"+s.Taint] = slo.Measure{Value: 1, Unit: "x" + s.Taint}
	}
	return j
}

func startupObjective(v float64, interval [2]float64, n int) slo.Result {
	return slo.Result{
		Name: "pod startup", SLI: "pod-startup", Labels: map[string]string{"phase": "startup"}, Statistic: "p99",
		Value: &v, Unit: "seconds", Threshold: 5, Verdict: slo.Pass, Samples: n, Interval: &interval, Warnings: []string{},
	}
}

func callObjective(name, verb, resource, scope string, v, bound float64, n int) slo.Result {
	return slo.Result{
		Name: name, SLI: "server-latency", Labels: map[string]string{"verb": verb, "resource": resource, "scope": scope}, Statistic: "p99",
		Value: &v, Unit: "seconds", Threshold: bound, Verdict: slo.Pass, Samples: n, Interval: &[2]float64{0.8 * v, 1.3 * v}, Warnings: []string{},
	}
}

// spoilJudgement makes the judgement one of a run that went badly.
func spoilJudgement(j *slo.Judgement) {
	set := func(i int, v float64, lo, hi float64, verdict slo.Verdict, warnings ...string) {
		r := &j.Objectives[i]
		r.Value, r.Interval, r.Verdict, r.Warnings = &v, &[2]float64{lo, hi}, verdict, warnings
	}
	set(0, 7.214, 6.9, 7.61, slo.Fail)
	set(1, 1.31, 1.25, 1.5, slo.Fail)
	set(5, 0.93, 0.75, 1.25, slo.Unknown, "the histogram only says that it lies between 0.75 and 1.25")
	missing := &j.Objectives[9]
	missing.Value, missing.Interval, missing.Verdict, missing.Samples = nil, nil, slo.Unknown, 0
	missing.Warnings = []string{"nothing was measured"}
	low := 61.2
	j.Objectives = append(j.Objectives, slo.Result{
		Name: "pods running per second", SLI: "pods-running-rate", Labels: map[string]string{"group": "saturation"}, Statistic: "mean",
		Value: &low, Unit: "1/s", Threshold: 90, AtLeast: true, Verdict: slo.Fail, Samples: 3000, Warnings: []string{},
	})
	j.Verdict = slo.Fail
	j.Reasons = []string{
		"p99 of pod startup is 7.214 s, above its bound of 5 s.",
		"mean of pods running per second (group saturation) is 61.2/s, below its bound of 90/s.",
		"p99 of mutating calls (POST pods) is 1.31 s, above its bound of 1 s.",
	}
	j.Self.LateCalls, j.Self.MaxLatenessSeconds, j.Self.CPUShare = 2, 0.131, 0.31
}
