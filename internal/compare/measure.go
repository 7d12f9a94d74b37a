package compare

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Direction says which way of a measure is the better one.
type Direction string

// The directions of measures.
const (
	Lower  Direction = "lower"
	Higher Direction = "higher"
)

// family is what is known of the measures whose key begins so.
type family struct {
	prefix string
	better Direction
	title  string // what stands before the rest of the key
}

// families are the measures that are judged: what users of a plane wait for, and
// what it costs. All others say how the run was flown, not how the plane did.
func families() []family {
	return []family{
		{"call_latency_", Lower, "call latency"},
		{"pod_startup_", Lower, "pod startup"},
		{"create_to_bound_", Lower, "created to bound"},
		{"bound_to_running_", Lower, "bound to running"},
		{"running_to_ready_", Lower, "running to ready"},
		{"deleting_to_deleted_", Lower, "deleting to deleted"},
		{"lifecycle_", Lower, "lifecycle"},
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

// familyOf returns the family of a measure; false where it is not judged.
func familyOf(key string, m slo.Measure) (family, bool) {
	if m.Own {
		return family{prefix: key, better: Direction(m.Better)}, m.Better != ""
	}
	for _, k := range families() {
		if strings.HasPrefix(key, k.prefix) && !strings.HasSuffix(key, instrument) {
			return k, true
		}
	}
	return family{}, false
}

func words(key string) string { return strings.ReplaceAll(key, "_", " ") }

// ofLifecycle takes the key of a lifecycle's measure apart: its name with the
// phases, statistic, group.
var ofLifecycle = regexp.MustCompile(`^lifecycle_(.+)_(p[0-9]+|mean|max)_seconds(?:_(.+))?$`)

// Title names a measure in words, such as "p99 pod startup (saturation)", "CPU per pod
// of kube-apiserver", "p95 vmi created to running", and says which way of it is the
// better one. False: it is not judged, for it says how a run was flown rather than
// how the plane did.
func Title(key string, m slo.Measure) (text string, better Direction, judged bool) {
	f, ok := familyOf(key, m)
	return title(key, m), f.better, ok
}

func title(key string, m slo.Measure) string {
	k, ok := familyOf(key, m)
	rest := strings.TrimPrefix(strings.TrimPrefix(key, k.prefix), "_")
	parts := ofLifecycle.FindStringSubmatch(key)
	switch {
	case m.Own || !ok:
		return words(key)
	case strings.HasSuffix(k.title, " of"):
		return k.title + " " + strings.ReplaceAll(rest, "_", "-")
	case parts != nil && parts[3] != "":
		return parts[2] + " " + words(parts[1]) + " (" + parts[3] + ")"
	case parts != nil:
		return parts[2] + " " + words(parts[1])
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
	family           family
	all              []float64
}

// valuesOf returns a measure of every run; false where not all runs have it.
func (c *comparing) valuesOf(key string) (all []float64, ok bool) {
	for _, r := range c.runs {
		m, ok := r.Judgement.Measures[key]
		if !ok {
			return nil, false
		}
		all = append(all, m.Value)
	}
	return all, true
}

// warnMissing says that a measure is left out.
func (c *comparing) warnMissing(title string) {
	c.warn("%s was not measured in every run, and is not compared.", title)
}

// judgedMeasures collects the measures that all runs have. A measure that has the same
// value as another in every run, such as a group that all pods belong to, is
// taken once; one that only some runs have is named.
func (c *comparing) judgedMeasures() (out []values) {
	known := map[string]slo.Measure{}
	for _, r := range c.runs {
		maps.Copy(known, r.Judgement.Measures)
	}
	for _, k := range slices.Sorted(maps.Keys(known)) {
		family, ok := familyOf(k, known[k])
		if !ok || !c.wanted(k) {
			continue
		}
		if cpu, isCPU := strings.CutPrefix(k, "cpu_seconds_"); isCPU {
			if _, perPod := c.valuesOf("cpu_ms_per_pod_" + cpu); perPod {
				continue
			}
		}
		v := values{key: k, title: title(k, known[k]), unit: known[k].Unit, family: family}
		if v.all, ok = c.valuesOf(k); !ok {
			c.warnMissing(v.title)
			continue
		}
		if !slices.ContainsFunc(out, func(o values) bool { return o.family == family && slices.Equal(o.all, v.all) && !constant(v.all) }) {
			out = append(out, v)
		}
	}
	return out
}

// wanted says whether the options ask for a measure.
func (c *comparing) wanted(key string) bool {
	return len(c.o.Only) == 0 || slo.HasKey(key, c.o.Only)
}
