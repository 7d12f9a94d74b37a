package compare

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
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

// measureFamilies returns the measures that are judged: what users of a plane wait for, and
// what it costs. All others say how the run was flown, not how the plane did.
func measureFamilies() [14]family {
	return [...]family{
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
	for _, k := range measureFamilies() {
		if strings.HasPrefix(key, k.prefix) && !strings.HasSuffix(key, instrument) {
			return k, true
		}
	}
	return family{}, false
}

func keyWords(key string) string { return strings.ReplaceAll(key, "_", " ") }

// ofLifecycle takes the key of a lifecycle's measure apart: its name with the
// phases, statistic, group.
var ofLifecycle = regexp.MustCompile(`^lifecycle_(.+)_(p[0-9]+|mean|max)_seconds(?:_(.+))?$`)

// Title names a measure in words, such as "p99 pod startup (saturation)", "CPU per pod
// of kube-apiserver", "p95 vmi created to running", and says which way of it is the
// better one. False: it is not judged, for it says how a run was flown rather than
// how the plane did.
func Title(key string, m slo.Measure) (text string, better Direction, judged bool) {
	f, ok := familyOf(key, m)
	return measureTitle(key, m), f.better, ok
}

// IsJudged says whether a measure says how the plane did. It costs less than Title.
func IsJudged(key string, m slo.Measure) bool {
	_, ok := familyOf(key, m)
	return ok
}

func measureTitle(key string, m slo.Measure) string {
	k, ok := familyOf(key, m)
	if !ok && !m.Own {
		return besidesTitle(key)
	}
	rest := strings.TrimPrefix(strings.TrimPrefix(key, k.prefix), "_")
	parts := ofLifecycle.FindStringSubmatch(key)
	switch {
	case m.Own:
		return keyWords(key)
	case strings.HasSuffix(k.title, " of"):
		return k.title + " " + strings.ReplaceAll(rest, "_", "-")
	case parts != nil && parts[3] != "":
		return parts[2] + " " + keyWords(parts[1]) + " (" + parts[3] + ")"
	case parts != nil:
		return parts[2] + " " + keyWords(parts[1])
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
	own, besides     bool // see Measure
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
	c.addWarning("%s was not measured in every run, and is not compared.", title)
}

// collectMeasures collects what all runs have: the measures that are judged and the scenario's
// objectives, and besides them all others. What has the same value as another in
// every run, such as a group that all pods belong to, is taken once. A measure
// that is judged and that only some runs have is named by itself.
func (c *comparing) collectMeasures() (judged, besides []values) {
	known := map[string]slo.Measure{}
	for _, r := range c.runs {
		maps.Copy(known, r.Judgement.Measures)
	}
	var rest []values
	var missing []absent
	for _, k := range slices.Sorted(maps.Keys(known)) {
		m := known[k]
		if m.Own && m.Better == "" || !c.isWanted(k, measureTitle(k, m)) || c.perPod(k) {
			continue // the scenario's own counts stand among the counters
		}
		v := values{key: k, title: measureTitle(k, m), unit: m.Unit, own: m.Own}
		f, isJudged := familyOf(k, m)
		if v.family = f; !isJudged {
			v.family, v.besides = besidesOf(k), true
		}
		all, everywhere := c.valuesOf(k)
		if !everywhere && v.besides {
			all, everywhere = c.counterValues(k)
		}
		switch v.all = all; {
		case everywhere && isJudged:
			judged = appendNew(judged, judged, v)
		case everywhere:
			rest = append(rest, v)
		case isJudged:
			c.warnMissing(v.title)
		default:
			missing = append(missing, c.absentFrom(k, v.title))
		}
	}
	judged, rest = c.addObjectives(judged, rest)
	for _, v := range rest {
		besides = appendNew(besides, slices.Concat(judged, besides), v)
	}
	c.warnAbsent(missing)
	if len(c.o.Only) > 0 { // named by somebody: one family, and a gate counts what has a direction
		for _, v := range besides {
			v.besides = v.family.better == ""
			judged = append(judged, v)
		}
		besides = nil
	}
	return judged, besides
}

// appendNew appends a measure, unless one of the same unit is it by another name.
func appendNew(to, known []values, v values) []values {
	if slices.ContainsFunc(known, func(o values) bool {
		return o.unit == v.unit && (o.family == v.family || v.besides) && slices.Equal(o.all, v.all) && !isConstant(v.all)
	}) {
		return to
	}
	return append(to, v)
}

// perPod says whether a measure of CPU stands there for each pod, too.
func (c *comparing) perPod(key string) bool {
	cpu, isCPU := strings.CutPrefix(key, "cpu_seconds_")
	if !isCPU {
		return false
	}
	_, known := c.valuesOf("cpu_ms_per_pod_" + cpu)
	return known
}

// addObjectives adds what objectives hold against their bounds. One that is a
// measure, too, marks it as the scenario's own; one that has a result for each of
// many labels, such as all calls of the Kubernetes SLOs, is not judged.
func (c *comparing) addObjectives(judged, besides []values) (_, _ []values) {
	many, found, order := map[string]bool{}, map[string]values{}, []string(nil)
	for i, r := range c.runs {
		seen := map[string]bool{}
		for _, o := range r.Judgement.Objectives {
			many[o.Name] = many[o.Name] || seen[o.Name]
			seen[o.Name] = true
			if o.Value == nil {
				continue
			}
			v := newObjective(o, len(c.runs))
			if old, known := found[v.key]; known {
				v = old
			} else if order = append(order, v.key); !c.isWanted(v.key, v.title) {
				continue
			}
			v.all[i] = *o.Value
			found[v.key] = v
		}
		for _, o := range r.Judgement.Objectives {
			if v, known := found[objectiveKey(o)]; known && many[o.Name] {
				v.besides = true
				found[v.key] = v
			}
		}
	}
	for _, key := range order {
		v, wanted := found[key]
		same := slices.IndexFunc(judged, func(o values) bool { return o.unit == v.unit && slices.Equal(o.all, v.all) })
		switch {
		case !wanted:
		case slices.ContainsFunc(v.all, math.IsNaN):
			if !v.besides {
				c.warnMissing(v.title)
			}
		case same >= 0 && !isConstant(v.all):
			judged[same].own = true
		case v.besides:
			besides = append(besides, v)
		default:
			judged = append(judged, v)
		}
	}
	return judged, besides
}

func objectiveKey(o slo.Result) string { return slo.Key("objective", slo.Title(o)) }

// newObjective makes the values of an objective of so many runs, none of them known yet.
func newObjective(o slo.Result, runs int) values {
	v := values{key: objectiveKey(o), title: slo.Title(o), unit: o.Unit, own: true, all: make([]float64, runs)}
	v.family = family{prefix: v.key, better: Lower}
	if o.AtLeast {
		v.family.better = Higher
	}
	for i := range v.all {
		v.all[i] = math.NaN()
	}
	return v
}
