package compare_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
)

// source makes up runs as a machine with some noise would give them: a run has a
// good or a bad day as a whole, its measures go with it and have noise of
// their own, and the percentiles of one latency go together.
type source struct {
	r       *rand.Rand
	besides *rand.Rand // of what nobody judges
	spread  float64    // of each measure from run to run
	n       int
}

func newSource(seed uint64, spread float64) *source {
	return &source{r: rand.New(rand.NewPCG(seed, 7)), besides: rand.New(rand.NewPCG(seed, 8)), spread: spread}
}

func latencies() []string {
	return []string{"call_latency", "pod_startup", "create_to_bound", "bound_to_running", "deleting_to_deleted"}
}

func components() []string {
	return []string{"etcd", "kube_apiserver", "kube_scheduler", "kube_controller_manager"}
}

// besides are measures of indicators that nobody judges, as a run has dozens of.
func besides() []string {
	out := []string{"apf_wait_p99_seconds", "request_latency_p99_seconds", "etcd_fsync_p99_seconds", "etcd_commit_p99_seconds", "admission_latency_p99_seconds"}
	for _, name := range components() {
		for _, of := range []string{"workqueue_latency_p99_seconds_", "gc_pause_mean_seconds_"} {
			out = append(out, of+name)
		}
	}
	return out
}

// run makes up a run; slower is by what factor its latencies are.
func (s *source) run(side string, slower float64) compare.Run {
	s.n++
	share := s.spread / math.Sqrt(3) // of the day, of the thing and of the measure
	day := s.r.NormFloat64()
	value := func(middle, thing float64) float64 {
		return middle * math.Exp(share*(day+thing+s.r.NormFloat64()))
	}
	m := map[string]slo.Measure{"nodes": {Value: 100, Unit: "nodes"}, "host_others_share": {Value: 0.01, Unit: "ratio"}}
	for i, name := range latencies() {
		thing := s.r.NormFloat64()
		for j, q := range []string{"p50", "p90", "p99"} {
			m[name+"_"+q+"_seconds"] = slo.Measure{Value: slower * value(0.1*float64(1+i+2*j), thing), Unit: "seconds"}
		}
	}
	for _, name := range components() {
		m["cpu_ms_per_pod_"+name] = slo.Measure{Value: value(10, s.r.NormFloat64()), Unit: "ms/pod"}
		m["peak_rss_bytes_"+name] = slo.Measure{Value: value(2e8, s.r.NormFloat64()), Unit: "bytes"}
	}
	for i, key := range besides() {
		noise := day + s.besides.NormFloat64() + s.besides.NormFloat64()
		m[key] = slo.Measure{Value: float64(1+i%7) * math.Exp(share*noise), Unit: "seconds"}
	}
	return compare.Run{
		Name: fmt.Sprintf("%s-%02d", side, s.n), Scenario: "scenario: made-up\n",
		Manifest: record.Manifest{
			Format: record.Format, Scenario: "made-up", Seed: 1,
			Started:    time.Date(2026, 1, 2, 3, 0, s.n, 0, time.UTC),
			Parameters: map[string]any{"rate": 100}, Versions: map[string]string{"kubernetes": "v1.37.1"},
			Machine: record.Machine{Cores: 2, CPU: "one", MemoryBytes: 8 << 30, Arch: "amd64"},
			Plane: record.PlaneFacts{Kind: "embedded", Durability: "memory", Components: []record.ComponentFact{
				{Name: "etcd", Args: []string{fmt.Sprintf("--data-dir=/tmp/windtunnel-run-%d/etcd", s.n), fmt.Sprintf("--listen=https://127.0.0.1:%d", 1000+s.n)}},
			}},
		},
		Judgement: slo.Judgement{Scenario: "made-up", Verdict: slo.Pass, Measures: m},
		Facts: &compare.Facts{Ended: record.Event{Detail: record.Detail{Reason: record.Done}}, Counters: []compare.Count{
			{Name: "server: POST pods", Unit: "requests/pod", Value: 1},
			{Name: "server: PUT leases", Unit: "requests/pod", Value: 0.3 + 0.01*s.r.Float64()},
			{Name: "etcd: get events", Unit: "requests/pod", Value: float64(1 + s.r.IntN(2))},
			{Name: "etcd: get now and then", Unit: "requests/pod", Value: 0.001},
		}},
	}
}

// sides makes up n runs of each side.
func (s *source) sides(n int, slower float64) (a, b []compare.Run) {
	for range n {
		a = append(a, s.run("a", 1))
		b = append(b, s.run("b", slower))
	}
	return a, b
}
