package reporttest

import (
	"encoding/json"

	"github.com/windtunnel/windtunnel/internal/record"
)

// part is a component's appetite.
type part struct {
	name              string
	idle, call, pod   float64 // CPU seconds per second, call and pod
	born, grows, heap float64 // bytes: at the start, per pod, of garbage
	collects          float64 // seconds between garbage collections
}

func planeParts() []part {
	const ms, mb = 1e-3, 1e6
	return []part{
		{"etcd", 0.012, 0.22 * ms, 0.3 * ms, 60 * mb, 9e3, 20 * mb, 9},
		{"kube-apiserver", 0.045, 0.55 * ms, 1.8 * ms, 310 * mb, 62e3, 160 * mb, 6},
		{"kube-controller-manager", 0.02, 0.01 * ms, 0.9 * ms, 110 * mb, 17e3, 30 * mb, 11},
		{"kube-scheduler", 0.008, 0.005 * ms, 1.9 * ms, 90 * mb, 12e3, 24 * mb, 13},
		{"windtunnel", 0.006, 0.06 * ms, 0.05 * ms, 48 * mb, 700, 9 * mb, 5},
	}
}

// writeUsage writes the samples of CPU and memory, a second apart, leases of the
// fleet and scrapes of the plane.
func (f *flight) writeUsage() {
	end := int(f.now) + 1
	for len(f.busy) <= end {
		f.busy = append(f.busy, load{})
	}
	for _, p := range planeParts() {
		cpu := f.w.Series(record.Series{Target: p.name, Name: "process_cpu_seconds_total"})
		mem := f.w.Series(record.Series{Target: p.name, Name: "process_resident_memory_bytes"})
		used, pods := 1.2*p.idle, 0.0
		for s := range end {
			b := f.busy[s]
			pods += b.pods
			used += p.idle*f.jitter(0.2) + (p.call*b.calls+p.pod*b.pods)*f.jitter(0.08)
			if s < 3 {
				used += 0.6 * p.idle / 0.045 // starting
			}
			saw := float64(s%int(p.collects)) / p.collects
			t := at(float64(s) + 1 + 0.002*f.rnd.Float64())
			f.w.Sample(record.Sample{Series: cpu, At: t, Value: used})
			f.w.Sample(record.Sample{Series: mem, At: t, Value: float64(int(p.born + p.grows*pods + p.heap*saw*f.jitter(0.1)))})
		}
	}
	f.writeGauges(end)
	renew := record.Op{Source: "fleet", Verb: "update", Resource: "leases.coordination.k8s.io", Scope: "resource"}
	for i := range f.Nodes * (end - 6) / 10 {
		f.sendCall(renew, 5+float64(i)*10/float64(f.Nodes), 0.003)
	}
	list := record.Op{Source: "observe", Verb: "list", Resource: "pods", Scope: "cluster"}
	f.sendCall(list, 4, 0.02)
	for s := 5; s < end; s += 5 {
		f.w.Event(record.Event{At: at(float64(s)), Type: record.EventScraped, Name: "kube-apiserver"})
	}
}

// writeGauges writes what waited in queues, as scrapes five seconds apart tell it.
func (f *flight) writeGauges(end int) {
	gauge := func(target, name, label, value string) record.SeriesID {
		return f.w.Series(record.Series{Target: target, Name: name, Labels: []record.Label{{Name: label, Value: value}}})
	}
	depth := gauge("kube-controller-manager", "workqueue_depth", "name", "deployment"+f.Taint)
	idle := gauge("kube-controller-manager", "workqueue_depth", "name", "never-used")
	active := gauge("kube-scheduler", "scheduler_pending_pods", "queue", "active")
	changing := gauge("kube-apiserver", "apiserver_current_inflight_requests", "request_kind", "mutating")
	held := f.w.Series(record.Series{Target: "kube-apiserver", Name: "cgroup_cpu_throttled_seconds_total"})
	for s := 5; s < end; s += 5 {
		b, t := f.busy[s], at(float64(s)+0.01)
		long := float64(int(b.pods / 9 * f.jitter(0.4)))
		if f.Spike > 0 && s/5 == end/10 {
			long = f.Spike
		}
		f.w.Sample(record.Sample{Series: depth, At: t, Value: long})
		f.w.Sample(record.Sample{Series: idle, At: t})
		f.w.Sample(record.Sample{Series: active, At: t, Value: float64(int(b.pods / 5 * f.jitter(0.4)))})
		f.w.Sample(record.Sample{Series: changing, At: t, Value: float64(int(1 + b.calls/40*f.jitter(0.4)))})
		f.w.Sample(record.Sample{Series: held, At: t, Value: float64(s) * 0.011})
	}
}

// newDiagnosis invents what gave way.
func newDiagnosis(s Shape) string {
	taint, err := json.Marshal("CPU" + s.Taint)
	if err != nil {
		return "[]"
	}
	return `[
{"rank": 1, "cause": ` + string(taint) + `, "component": "kube-scheduler", "score": 0.93,
 "sentence": "It used 0.98 of the one core that it can use at a time while 412 pods waited to be bound.",
 "evidence": [{"expr": "rate(process_cpu_seconds_total{target=\"kube-scheduler\"}[10s])", "value": 0.98, "unit": "cores", "bound": 1, "sentence": "CPU at its highest:"},
  {"expr": "max(scheduler_pending_pods{queue=\"active\"})", "value": 412, "unit": "pods", "bound": null, "sentence": "Pods that waited:"}],
 "try": "a second scheduler profile, or fewer plugins"},
{"rank": 2, "cause": "client-side limit", "component": "kube-controller-manager", "score": 0.41, "sentence": "Its own limit of 100 calls per second held it back for 7.1 s.", "evidence": [], "try": ""}
]
`
}
