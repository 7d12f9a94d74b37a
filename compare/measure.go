package compare

import (
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/stats"
)

// Better says which way of a measure is the better one.
type Better string

// The directions of measures.
const (
	Lower  Better = "lower"
	Higher Better = "higher"
)

// kind is what is known of the measures whose key begins so.
type kind struct {
	prefix string
	better Better
	title  string // what stands before the rest of the key
}

// kinds are the measures that are judged: what users of a plane wait for, and
// what it costs. All others say how the run was flown, not how the plane did.
func kinds() []kind {
	return []kind{
		{"call_latency_", Lower, "call latency"},
		{"pod_startup_", Lower, "pod startup"},
		{"create_to_bound_", Lower, "created to bound"},
		{"bound_to_running_", Lower, "bound to running"},
		{"running_to_ready_", Lower, "running to ready"},
		{"deleting_to_deleted_", Lower, "deleting to deleted"},
		{"life_", Lower, "life"},
		{"pods_running_per_second", Higher, "pods running per second"},
		{"pods_deleted_per_second", Higher, "pods deleted per second"},
		{"achieved_rate_", Higher, "achieved rate"},
		{"cpu_ms_per_pod_", Lower, "CPU per pod of"},
		{"cpu_seconds_", Lower, "CPU of"},
		{"cpu_throttled_seconds_", Lower, "time throttled of"},
		{"peak_rss_bytes_", Lower, "peak memory of"},
	}
}

// instrument ends the keys of windtunnel's own cost, which is not the plane's.
const instrument = "_windtunnel"

// kindOf returns the kind of a key; false where it is not judged.
func kindOf(key string) (kind, bool) {
	for _, k := range kinds() {
		if strings.HasPrefix(key, k.prefix) && !strings.HasSuffix(key, instrument) {
			return k, true
		}
	}
	return kind{}, false
}

// title names a measure in words: "p99 pod startup (saturation)", "CPU per pod
// of kube-apiserver".
func title(key string) string {
	k, _ := kindOf(key)
	rest := strings.TrimPrefix(strings.TrimPrefix(key, k.prefix), "_")
	if strings.HasSuffix(k.title, " of") {
		return k.title + " " + strings.ReplaceAll(rest, "_", "-")
	}
	head := k.title
	if q, tail, _ := strings.Cut(rest, "_"); strings.HasPrefix(q, "p") {
		if _, ok := stats.Parse(q); ok {
			head, rest = q+" "+head, strings.TrimPrefix(strings.TrimPrefix(tail, "seconds"), "_")
		}
	}
	if rest != "" {
		head += " (" + rest + ")"
	}
	return head
}

// values are one measure's: those of A, then those of B.
type values struct {
	key, unit string
	kind      kind
	all       []float64
}

// judged collects the measures that all runs have. A measure that has the same
// value as another in every run, such as a group that all pods belong to, is
// taken once; missing names those that only some runs have.
func (c *comparing) judged() (out []values, missing []string) {
	units := map[string]string{}
	have := map[string]int{}
	for _, r := range c.runs {
		for k, m := range r.Judgement.Measures {
			have[k]++
			units[k] = m.Unit
		}
	}
	for _, k := range slices.Sorted(maps.Keys(units)) {
		kind, ok := kindOf(k)
		cpu, isCPU := strings.CutPrefix(k, "cpu_seconds_")
		switch {
		case !ok || !c.wanted(k), isCPU && have["cpu_ms_per_pod_"+cpu] == len(c.runs):
			continue
		case have[k] < len(c.runs):
			missing = append(missing, k)
			continue
		}
		v := values{key: k, unit: units[k], kind: kind}
		for _, r := range c.runs {
			v.all = append(v.all, r.Judgement.Measures[k].Value)
		}
		if !slices.ContainsFunc(out, func(o values) bool { return o.kind == kind && slices.Equal(o.all, v.all) && !constant(v.all) }) {
			out = append(out, v)
		}
	}
	return out, missing
}

// wanted says whether the options ask for a measure.
func (c *comparing) wanted(key string) bool {
	return len(c.o.Only) == 0 || slices.ContainsFunc(c.o.Only, func(p string) bool { return strings.HasPrefix(key, p) })
}
