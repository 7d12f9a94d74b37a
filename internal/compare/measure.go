package compare

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
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

// kindOf returns the kind of a measure; false where it is not judged.
func kindOf(key string, m slo.Measure) (kind, bool) {
	if m.Own {
		return kind{prefix: key, better: Better(m.Better)}, m.Better != ""
	}
	for _, k := range kinds() {
		if strings.HasPrefix(key, k.prefix) && !strings.HasSuffix(key, instrument) {
			return k, true
		}
	}
	return kind{}, false
}

func words(key string) string { return strings.ReplaceAll(key, "_", " ") }

// ofLife takes the key of a life's measure apart: life, phases, statistic, group.
var ofLife = regexp.MustCompile(`^life_(.+)_(p[0-9]+|mean|max)_seconds(?:_(.+))?$`)

// title names a measure in words: "p99 pod startup (saturation)", "CPU per pod
// of kube-apiserver", "p95 vmi created to running".
func title(key string, m slo.Measure) string {
	k, ok := kindOf(key, m)
	rest := strings.TrimPrefix(strings.TrimPrefix(key, k.prefix), "_")
	life := ofLife.FindStringSubmatch(key)
	switch {
	case m.Own || !ok:
		return words(key)
	case strings.HasSuffix(k.title, " of"):
		return k.title + " " + strings.ReplaceAll(rest, "_", "-")
	case life != nil && life[3] != "":
		return life[2] + " " + words(life[1]) + " (" + life[3] + ")"
	case life != nil:
		return life[2] + " " + words(life[1])
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
	key, title, unit string
	kind             kind
	all              []float64
}

// every returns a measure of every run; false where not all runs have it.
func (c *comparing) every(key string) (all []float64, ok bool) {
	for _, r := range c.runs {
		m, ok := r.Judgement.Measures[key]
		if !ok {
			return nil, false
		}
		all = append(all, m.Value)
	}
	return all, true
}

// missing says that a measure is left out.
func (c *comparing) missing(title string) {
	c.warn("%s was not measured in every run, and is not compared.", title)
}

// judged collects the measures that all runs have. A measure that has the same
// value as another in every run, such as a group that all pods belong to, is
// taken once; one that only some runs have is named.
func (c *comparing) judged() (out []values) {
	known := map[string]slo.Measure{}
	for _, r := range c.runs {
		maps.Copy(known, r.Judgement.Measures)
	}
	for _, k := range slices.Sorted(maps.Keys(known)) {
		kind, ok := kindOf(k, known[k])
		if !ok || !c.wanted(k) {
			continue
		}
		if cpu, isCPU := strings.CutPrefix(k, "cpu_seconds_"); isCPU {
			if _, perPod := c.every("cpu_ms_per_pod_" + cpu); perPod {
				continue
			}
		}
		v := values{key: k, title: title(k, known[k]), unit: known[k].Unit, kind: kind}
		if v.all, ok = c.every(k); !ok {
			c.missing(v.title)
			continue
		}
		if !slices.ContainsFunc(out, func(o values) bool { return o.kind == kind && slices.Equal(o.all, v.all) && !constant(v.all) }) {
			out = append(out, v)
		}
	}
	return out
}

// wanted says whether the options ask for a measure.
func (c *comparing) wanted(key string) bool {
	return len(c.o.Only) == 0 || slices.ContainsFunc(c.o.Only, func(p string) bool { return strings.HasPrefix(key, p) })
}
