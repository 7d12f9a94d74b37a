package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// level is the chance that one look at a history without a change shows one,
// shared among its measures (Bonferroni). Each build looks again, so it is less
// than a gate may be wrong by: with Change.Suspected it makes the gate fail in fewer than 5
// of 100 histories of 40 builds without a change, each looked at after every build.
const level = 0.02

// confirmRuns is how many runs later a change has to be found still.
const confirmRuns = 2

// maxRuns is how many of the newest runs are looked at: older changes are known.
const maxRuns = 100

// Options say what is looked for.
type Options struct {
	Only      []string // measures whose keys begin so; empty: all that are judged, but for 90th percentiles
	FailAbove float64  // by which share a measure may have become worse; 0: no gate
	// Changes finds them; nil: a new one. Reports that share one are made sooner,
	// for it remembers what chance does.
	Changes *stats.Changes
}

// Report is what a history says.
type Report struct {
	Scenario string    `json:"scenario"`
	Runs     []Run     `json:"runs"`     // those that were looked at, in the order of time
	Warnings []string  `json:"warnings"` // sentences
	Measures []Measure `json:"measures"` // those that changed first
	// Needed is how many runs after a change it takes to see one however large,
	// behind as many as there are; 0: no number would do yet.
	Needed int   `json:"needed"`
	Gate   *Gate `json:"gate,omitempty"`
}

// Run is an entry that was looked at.
type Run struct {
	Name     string            `json:"name"`
	Started  string            `json:"started"` // RFC 3339
	Versions map[string]string `json:"versions"`
	Verdict  slo.Verdict       `json:"verdict"`
	Accepted bool              `json:"accepted,omitempty"`
}

// Measure is one measure over the runs.
type Measure struct {
	Key     string            `json:"key"`
	Title   string            `json:"title"`
	Unit    string            `json:"unit"`
	Better  compare.Direction `json:"better"`
	Values  []float64         `json:"values"`  // by run
	Changes []Change          `json:"changes"` // in the order of time
	Now     float64           `json:"now"`     // median since the last change
}

// Change is a place from which on a measure is at another level.
type Change struct {
	At     int     `json:"at"` // index in runs of the first run after it
	Run    string  `json:"run"`
	Before float64 `json:"before"` // median of the runs since the change before
	After  float64 `json:"after"`  // median of the runs until the change after
	// Share is by how much After is worse: 0.1 is 10 %, negative is better. Nil
	// where Before is not above 0.
	Share    *float64   `json:"share"`
	P        float64    `json:"p"`                  // that a history without a change shows one as clear, in this measure
	Versions [][]string `json:"versions,omitempty"` // that changed with it: name, before, after
	Accepted bool       `json:"accepted,omitempty"`
	// Acceptance says by whom and why, where that is known.
	Acceptance *Acceptance `json:"acceptance,omitempty"`
	// Suspected says that the history did not show it, at about this place, without
	// its newest run and without its newest two: it may be chance, and fails no build.
	Suspected bool   `json:"suspected,omitempty"`
	Sentence  string `json:"sentence"`
}

// Look finds what changed. Runs that did not come to their end, and those
// before the last change of scenario, parameters or machine, are left out by
// name. An error wraps ErrRefused: a history without a run that can be looked at.
func Look(f *File, o Options) (*Report, error) {
	r := &Report{Scenario: f.Scenario, Runs: []Run{}, Warnings: []string{}, Measures: []Measure{}}
	entries := r.admitRuns(f.Entries)
	if len(entries) == 0 {
		return nil, fmt.Errorf("the newest run %w: no run of %s came to its end", ErrRefused, f.Scenario)
	}
	for _, e := range entries {
		r.Runs = append(r.Runs, Run{e.Name, e.Started.Format("2006-01-02T15:04:05Z07:00"), e.Versions, e.Verdict, e.Accepted})
	}
	newest := entries[len(entries)-1]
	for _, prefix := range o.Only {
		known := slices.Sorted(maps.Keys(newest.Measures))
		if !slices.ContainsFunc(known, func(key string) bool { return slo.HasKey(key, []string{prefix}) }) {
			return nil, fmt.Errorf("the newest run, %s, has no measure whose key starts with %q%s", newest.Name, prefix, text.DidYouMean(prefix, known))
		}
	}
	keys := r.commonKeys(entries, o.Only)
	changes, each := o.Changes, level/float64(max(1, len(keys)))
	if changes == nil {
		changes = stats.NewChanges(1)
	}
	for _, key := range keys {
		r.Measures = append(r.Measures, newMeasure(key, entries, func(v []float64) []stats.Change { return changes.Find(v, each) }))
	}
	slices.SortStableFunc(r.Measures, byWeight)
	if each < stats.MinLevel {
		r.addWarning("%s share so strict a level that no change can be believed: look at fewer (--measure).", unit.Count(len(keys), "measures"))
	}
	if len(entries) >= stats.MinSegment {
		r.Needed = changes.Visible(len(entries), each)
	}
	if o.FailAbove > 0 {
		r.Gate = r.holdGate(o.FailAbove, func(runs int) bool { return each >= stats.MinLevel && changes.Sees(runs-confirmRuns, each) })
	}
	return r, nil
}

func (r *Report) addWarning(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// admitRuns takes the newest runs of one setting that came to their end. What was
// accepted with one that did not is accepted up to the run before it.
func (r *Report) admitRuns(all []Entry) []Entry {
	var out []Entry
	accepted := Entry{} // that was left out
	for i := len(all) - 1; i >= 0 && len(out) < maxRuns; i-- {
		e := all[i]
		if e.LeftOut != "" {
			r.addWarning("Left out: %s: %s.", e.Name, e.LeftOut)
			accepted.Accepted = accepted.Accepted || e.Accepted
			accepted.Acceptances = append(accepted.Acceptances, e.Acceptances...)
			continue
		}
		if len(out) > 0 {
			if what := e.Setting.differsIn(out[0].Setting); what != "" {
				r.addWarning("%s and %s before it are left out: %s changed after it.", e.Name, unit.Count(i, "runs"), what)
				break
			}
		}
		e.Accepted = e.Accepted || accepted.Accepted
		e.Acceptances = slices.Concat(e.Acceptances, accepted.Acceptances)
		accepted = Entry{}
		out = append(out, e)
	}
	slices.Reverse(out)
	return out
}

// commonKeys are those of the measures that every run has.
func (r *Report) commonKeys(entries []Entry, only []string) []string {
	have := map[string]int{}
	for _, e := range entries {
		for key := range e.Measures {
			have[key]++
		}
	}
	var out, missing []string
	for _, key := range slices.Sorted(maps.Keys(have)) {
		switch {
		case len(only) > 0 && !slo.HasKey(key, only):
		case len(only) == 0 && strings.Contains(key, "_p90_"): // p50 and p99 stand for it: fewer measures are seen sooner
		case have[key] < len(entries):
			missing = append(missing, key)
		case strings.HasPrefix(key, "cpu_seconds_") && have["cpu_ms_per_pod_"+strings.TrimPrefix(key, "cpu_seconds_")] == len(entries): // the same by another name
		default:
			out = append(out, key)
		}
	}
	if len(missing) > 0 {
		r.addWarning("Not measured in every run, and not looked at: %s.", strings.Join(missing, ", "))
	}
	if len(out) == 0 {
		r.addWarning("No measure that is judged was measured in every run.")
	}
	return out
}

// newMeasure looks at one measure.
func newMeasure(key string, entries []Entry, find func([]float64) []stats.Change) Measure {
	first := entries[0].Measures[key]
	title, better, _ := compare.Title(key, first)
	m := Measure{Key: key, Title: title, Unit: first.Unit, Better: better, Changes: []Change{}}
	for _, e := range entries {
		m.Values = append(m.Values, e.Measures[key].Value)
	}
	found := find(m.Values)
	var earlier [confirmRuns][]stats.Change
	if len(found) > 0 {
		for i := range earlier {
			earlier[i] = find(m.Values[:max(0, len(m.Values)-1-i)])
		}
	}
	from := 0
	for i, c := range found {
		to := len(m.Values)
		if i+1 < len(found) {
			to = found[i+1].At
		}
		change := Change{At: c.At, Run: entries[c.At].Name, P: c.P,
			Before: stats.Median(m.Values[from:c.At]).Value, After: stats.Median(m.Values[c.At:to]).Value,
			Versions:  versionChanges(entries[c.At-1].Versions, entries[c.At].Versions),
			Suspected: slices.ContainsFunc(earlier[:], func(known []stats.Change) bool { return !containsNear(known, c.At) })}
		if a, ok := acceptanceOf(key, entries[c.At:]); ok {
			change.Accepted = true
			if a.Reason != "" || a.Owner != "" {
				change.Acceptance = &a
			}
		}
		change.Share = m.worseningShare(change.Before, change.After)
		change.Sentence = m.describeChange(change)
		m.Changes = append(m.Changes, change)
		from = c.At
	}
	m.Now = stats.Median(m.Values[from:]).Value
	return m
}

// containsNear says whether a change is among others, at about the same place: at most
// as far off as makes no level.
func containsNear(known []stats.Change, at int) bool {
	return slices.ContainsFunc(known, func(c stats.Change) bool { return max(c.At-at, at-c.At) < stats.MinSegment })
}

// worseningShare is by which share a level is worse than another.
func (m Measure) worseningShare(before, after float64) *float64 {
	if before <= 0 || after < 0 {
		return nil
	}
	share := after/before - 1
	if m.Better == compare.Higher {
		share = 1 - after/before
	}
	return &share
}

// versionChanges lists what is not the same before and after a change.
func versionChanges(before, after map[string]string) [][]string {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, after)
	var out [][]string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if before[name] != after[name] {
			out = append(out, []string{name, before[name], after[name]})
		}
	}
	return out
}

// byWeight puts measures whose last change is the worst first.
func byWeight(a, b Measure) int {
	weight := func(m Measure) float64 {
		if n := len(m.Changes); n > 0 && m.Changes[n-1].Share != nil {
			return 1e6 + *m.Changes[n-1].Share
		} else if n > 0 {
			return 1e6
		}
		return 0
	}
	return -cmp.Compare(weight(a), weight(b))
}
