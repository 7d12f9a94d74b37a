package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The metrics of kube-apiserver that count and do not time.
const (
	requestsTotal = "apiserver_request_total"
	watchEvents   = "apiserver_watch_events_total"
	watchBytes    = "apiserver_watch_events_sizes_sum"
	storageCalls  = "etcd_requests_total"
)

// What each program counts of its own work, and etcd of what it writes: with these a change
// is seen that a noisy machine hides in its times.
const (
	allocatedObjects = "go_memstats_mallocs_total"
	collections      = "go_gc_duration_seconds_count"
	logBytes         = "etcd_disk_wal_write_bytes_total"
	puts             = "etcd_mvcc_put_total"
)

const pods = "pods"

const perPod = "/pod"

// background is how many of something for each pod, in every run, are too few
// to be the pods' doing: components look after themselves as time goes by.
// Such counters are left out, for they vary and hide the others.
const background = 0.01

// sumCounters sums up what a run asked of the plane, and what the plane did for
// it: created objects, then calls, bytes and watch events, per pod where pods were
// created and in all where there were none.
func sumCounters(f *run.Facts) []Count {
	created := map[string]float64{}
	for _, l := range f.Lifecycles {
		if l.Resource == pods && l.Name != "" {
			continue // declared besides
		}
		created[l.Resource] += float64(l.Reached(record.PhaseCreated))
	}
	totals := map[Count]float64{}
	for _, c := range f.Calls {
		what := c.Source + ": " + callSubject(c.Verb, c.Resource, c.Subresource)
		totals[Count{Name: what, Unit: "calls"}] += float64(c.Count())
		totals[Count{Name: what, Unit: "bytes sent"}] += float64(c.Sent)
		totals[Count{Name: what, Unit: "bytes received"}] += float64(c.Received)
		totals[Count{Name: what, Unit: "calls failed"}] += float64(c.Outcomes[record.Failed])
		totals[Count{Name: what, Unit: "calls unknown"}] += float64(c.Outcomes[record.Unknown])
	}
	addServerCounts(f, totals)
	addProgramCounts(f, totals)
	var out []Count
	for c, v := range totals {
		if v == 0 {
			continue // as in a run that lacks it
		}
		if created[pods] > 0 {
			c.Unit, v = c.Unit+perPod, v/created[pods]
		}
		out = append(out, Count{c.Name, c.Unit, v})
	}
	for resource, n := range created {
		out = append(out, Count{"created: " + resource, "objects", n})
	}
	slices.SortFunc(out, func(a, b Count) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Unit, b.Unit)) })
	return out
}

// addIncreases adds by how much series rose between the run's begin and end; those without a
// name are left out.
func addIncreases(f *run.Facts, totals map[Count]float64, all []*series.Series, unit string, name func(s *series.Series) string) {
	for _, s := range all {
		if n := name(s); n != "" {
			if rise, ok := s.Increase(f.Begin, f.End); ok {
				totals[Count{Name: n, Unit: unit}] += rise
			}
		}
	}
}

// addServerCounts adds what kube-apiserver counted.
func addServerCounts(f *run.Facts, totals map[Count]float64) {
	add := func(metric, unit string, name func(s *series.Series) string) {
		addIncreases(f, totals, f.Series.Select(component.APIServer, metric, nil), unit, name)
	}
	add(requestsTotal, "requests", func(s *series.Series) string {
		resource := s.Label("resource")
		if g := s.Label("group"); g != "" {
			resource += "." + g
		}
		return "server: " + callSubject(s.Label("verb"), resource, s.Label("subresource"))
	})
	kind := func(s *series.Series) string {
		return "watch events: " + strings.TrimSpace(cmp.Or(s.Label("resource"), s.Label("kind"))+" "+s.Label("group"))
	}
	addClientCounts(f, totals)
	add(watchEvents, "events", kind)
	add(watchBytes, "bytes", kind)
	add(storageCalls, "requests", func(s *series.Series) string {
		return "etcd: " + strings.TrimSpace(s.Label("operation")+" "+cmp.Or(s.Label("resource"), s.Label("type")))
	})
}

// addProgramCounts adds what each program that is scraped counted. What windtunnel costs is
// no work of the plane.
func addProgramCounts(f *run.Facts, totals map[Count]float64) {
	for _, m := range []struct{ metric, name, unit string }{
		{run.AllocatedBytes, "allocated: ", "bytes"},
		{allocatedObjects, "allocated: ", "objects"},
		{collections, "garbage collections: ", "collections"},
		{logBytes, "log written: ", "bytes"},
		{puts, "keys written: ", "keys"},
	} {
		addIncreases(f, totals, f.Series.Named(m.metric), m.unit, func(s *series.Series) string {
			program, _ := component.Of(s.Target) // all processes of a component: which one leads is chance
			if program == run.Instrument {
				return ""
			}
			return m.name + program
		})
	}
}

// addClientCounts adds what each client asked for, where an audit log has all of it. What
// windtunnel itself sent stands there as its calls.
func addClientCounts(f *run.Facts, totals map[Count]float64) {
	a := f.Attribute()
	if a == nil || !a.Enough() {
		return
	}
	for _, c := range a.ByName() {
		if strings.HasPrefix(c.Name, run.Instrument) {
			continue
		}
		for key, n := range c.Kinds {
			totals[Count{Name: "client " + c.Name + ": " + callSubject(key.Verb, cmp.Or(key.Resource, "(no resource)"), key.Subresource), Unit: "requests"}] += n
		}
	}
}

func callSubject(verb, resource, sub string) string {
	if sub != "" {
		resource += "/" + sub
	}
	return strings.TrimSpace(strings.ToUpper(verb) + " " + resource)
}

// Counter is one count of both sides.
type Counter struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// State is "equal" (the same in all runs), "differs" (each side has one
	// value, and they are two) or "varies" (from run to run of a side).
	State string    `json:"state"`
	A     []float64 `json:"a"`
	B     []float64 `json:"b"`
	// Corrected is the p-value of a counter that is not equal, corrected for the
	// number of those; it differs beyond chance when Shown.
	Corrected *float64 `json:"p_corrected,omitempty"`
	Shown     bool     `json:"shown,omitempty"`
	Own       bool     `json:"own,omitempty"` // measured because the scenario asks for it: listed in any case
}

// The states of a counter.
const (
	Equal   = "equal"
	Differs = "differs"
	Varies  = "varies"
)

// compareCounters compares the counters of runs that have records. A count that a run
// lacks is 0 there: nothing of the kind was asked.
func (c *comparing) compareCounters() []Counter {
	type key struct{ name, unit string }
	all := map[key][]float64{}
	for i, r := range c.runs {
		if r.Facts == nil {
			return nil
		}
		for _, n := range r.Facts.Counters {
			k := key{n.Name, n.Unit}
			if all[k] == nil {
				all[k] = make([]float64, len(c.runs))
			}
			all[k][i] = n.Value
		}
	}
	out := []Counter{}
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b key) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.unit, b.unit)) }) {
		if strings.HasSuffix(k.unit, perPod) && slices.Max(all[k]) < background {
			continue
		}
		if !c.isWanted(k.name, k.name) {
			continue
		}
		out = append(out, c.newCounter(k.name, k.unit, all[k]))
	}
	out = slices.Concat(c.ownCounters(), out)
	if out == nil {
		out = []Counter{}
	}
	c.testUnequal(out, true)
	c.testUnequal(out, false)
	return out
}

// ownCounters are the scenario's own measures of which it does not say what would be
// better, such as calls for each object: they are compared as counts are.
func (c *comparing) ownCounters() (out []Counter) {
	first := c.runs[0].Judgement.Measures
	for _, key := range slices.Sorted(maps.Keys(first)) {
		m := first[key]
		if !m.Own || m.Better != "" || !c.isWanted(key, keyWords(key)) {
			continue
		}
		all, ok := c.valuesOf(key)
		if !ok {
			c.warnMissing(keyWords(key))
			continue
		}
		k := c.newCounter(keyWords(key), m.Unit, all)
		k.Own = true
		out = append(out, k)
	}
	return out
}

// newCounter makes one of the values of all runs.
func (c *comparing) newCounter(name, unit string, all []float64) Counter {
	a, b := all[:c.a], all[c.a:]
	return Counter{Name: name, Unit: unit, State: counterState(a, b), A: a, B: b}
}

func counterState(a, b []float64) string {
	switch {
	case !isConstant(a) || !isConstant(b):
		return Varies
	case a[0] == b[0]:
		return Equal
	}
	return Differs
}

func isConstant(v []float64) bool { return slices.Min(v) == slices.Max(v) }

// testUnequal tests the counters that are not equal and the scenario's own, or
// those that are not, as a family by themselves: hundreds of others do not hide
// the few that a scenario asks for.
func (c *comparing) testUnequal(all []Counter, own bool) {
	var rows [][]float64
	var which []int
	for i, k := range all {
		if k.State != Equal && k.Own == own {
			rows, which = append(rows, slices.Concat(k.A, k.B)), append(which, i)
		}
	}
	for k, p := range stats.Permute(c.a, rows, c.o.Seed) {
		v := &all[which[k]]
		v.Corrected, v.Shown = &p, p <= counterLevel
	}
}

// FormatCounts writes a side's counts: the one that all runs have, or the least and
// the most.
func FormatCounts(v []float64) string {
	if isConstant(v) {
		return unit.Number(v[0])
	}
	return unit.Number(slices.Min(v)) + " to " + unit.Number(slices.Max(v))
}

// Medians are what a side's runs are summed up as.
func (k Counter) Medians() (a, b float64) {
	return stats.Median(k.A).Value, stats.Median(k.B).Value
}

// Word says how a counter compares: "beyond chance", or its state.
func (k Counter) Word() string {
	if k.Shown {
		return "beyond chance"
	}
	return k.State
}

// CounterTally says how many counters are equal in all runs, and how many differ
// beyond chance.
func (c *Comparison) CounterTally() (equal, beyond int) {
	for _, k := range c.Counters {
		if k.State == Equal {
			equal++
		}
		if k.Shown {
			beyond++
		}
	}
	return equal, beyond
}

// byUse puts counters first that say most: calls before what follows from them,
// and of those the ones that differ most.
func byUse(a, b Counter) int {
	rank := func(k Counter) int {
		switch name, _, _ := strings.Cut(k.Unit, "/"); name {
		case "events":
			return 1
		case "bytes", "bytes sent", "bytes received":
			return 2
		}
		return 0
	}
	apart := func(k Counter) float64 {
		a, b := k.Medians()
		return math.Abs(b - a)
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), -cmp.Compare(apart(a), apart(b)))
}

// Change writes how much more B has, by the medians.
func (k Counter) Change() string {
	a, b := k.Medians()
	switch {
	case a == b:
		return "0"
	case a == 0:
		return "new"
	case b == 0:
		return "gone"
	}
	return FormatChange(b / a)
}
