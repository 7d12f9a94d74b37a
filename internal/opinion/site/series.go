package site

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/history"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Data is what the page's script draws from; web/src/site.ts has the same types.
type Data struct {
	Series   []*Series           `json:"series"`   // newest run first
	Measures []Measure           `json:"measures"` // of all series
	Versions []map[string]string `json:"versions"` // of all runs
}

// Series are the runs of one scenario with the same text and parameters on like machines, in
// the order of time. Runs are columns.
type Series struct {
	Scenario   string            `json:"scenario"`
	Label      string            `json:"label"` // in what it differs from the other series of the scenario; empty: there is no other
	Parameters map[string]string `json:"parameters"`
	Machine    string            `json:"machine"`
	Text       string            `json:"text"`     // of its scenario: the beginning of the SHA-256
	Sentence   string            `json:"sentence"` // what the search for changes gave
	Names      []string          `json:"names"`
	Started    []int64           `json:"started"`  // seconds since 1970
	Verdicts   string            `json:"verdicts"` // a letter for each run: p, f or u
	Seeds      []string          `json:"seeds"`
	Versions   []int             `json:"versions"`          // index in Data.Versions
	Reports    []string          `json:"reports,omitempty"` // URL; empty: none
	// Measures are those that some run has, by index in Data.Measures, and Values what each
	// run has of them; those that changed come first. Changes are by index in Measures.
	Measures []int            `json:"measures"`
	Values   []figures        `json:"values"`
	Changes  map[int][]Change `json:"changes"`
}

// Measure is what is known of a measure beside its values.
type Measure struct {
	Key    string            `json:"key"`
	Title  string            `json:"title"`
	Unit   string            `json:"unit"`
	Better compare.Direction `json:"better"`
}

// Change is a place from which on a measure has another level.
type Change struct {
	At       int     `json:"at"` // index of the first run after it
	Before   float64 `json:"before"`
	After    float64 `json:"after"`
	State    string  `json:"state"` // worse, better, accepted or suspected
	Sentence string  `json:"sentence"`
}

// The states of changes.
const (
	worse     = "worse"
	better    = "better"
	accepted  = "accepted"
	suspected = "suspected"
)

// figures are values that are written with four digits, which is what charts and tables
// show; nil is a value that was not measured.
type figures []*float64

// MarshalJSON writes figures as a list of numbers.
func (f figures) MarshalJSON() ([]byte, error) {
	out := []byte{'['}
	for i, v := range f {
		if i > 0 {
			out = append(out, ',')
		}
		if v == nil {
			out = append(out, "null"...)
			continue
		}
		out = strconv.AppendFloat(out, *v, 'g', 4, 64)
	}
	return append(out, ']'), nil
}

// builder makes Data of runs.
type builder struct {
	data     Data
	measures map[string]int // index in data.Measures
	versions map[string]int
	changes  *stats.Changes
}

func build(runs []oneRun) Data {
	b := &builder{measures: map[string]int{}, versions: map[string]int{}, changes: stats.NewChanges(1),
		data: Data{Series: []*Series{}, Measures: []Measure{}, Versions: []map[string]string{}}}
	bySetting := map[string][]oneRun{}
	for _, r := range runs {
		key := r.scenario + "\x00" + r.Setting.Key()
		bySetting[key] = append(bySetting[key], r)
	}
	for _, key := range slices.Sorted(maps.Keys(bySetting)) {
		b.data.Series = append(b.data.Series, b.newSeries(bySetting[key]))
	}
	labelSeries(b.data.Series)
	slices.SortStableFunc(b.data.Series, func(a, b *Series) int { return -cmp.Compare(last(a.Started), last(b.Started)) })
	return b.data
}

func last[T any](of []T) T { return of[len(of)-1] }

// newSeries makes a series of runs of one setting. A run that is there twice, such as in a
// bundle too, is taken once.
func (b *builder) newSeries(runs []oneRun) *Series {
	slices.SortStableFunc(runs, func(a, b oneRun) int { return a.Started.Compare(b.Started) })
	runs = slices.CompactFunc(runs, func(a, b oneRun) bool { return a.Started.Equal(b.Started) })
	first := runs[0]
	s := &Series{Scenario: cutName(first.scenario), Parameters: map[string]string{}, Changes: map[int][]Change{}, Measures: []int{}, Values: []figures{}, Machine: machineText(first.Setting.Machine),
		Text: first.Setting.Text[:min(12, len(first.Setting.Text))]}
	for name, v := range first.Setting.Parameters {
		s.Parameters[cutName(name)] = cutName(fmt.Sprint(v))
	}
	keys, letters, reports := map[string]bool{}, make([]byte, 0, len(runs)), false
	for _, r := range runs {
		s.Names = append(s.Names, cutName(r.Name))
		s.Started = append(s.Started, r.Started.Unix())
		letters = append(letters, r.Verdict[0])
		s.Seeds = append(s.Seeds, strconv.FormatUint(r.Seed, 10))
		s.Versions = append(s.Versions, b.versionsOf(r.Versions))
		s.Reports = append(s.Reports, r.report)
		reports = reports || r.report != ""
		for key := range r.Measures {
			keys[key] = true
		}
	}
	if s.Verdicts = string(letters); !reports {
		s.Reports = nil
	}
	changed := b.findChanges(s, runs)
	order := slices.Sorted(maps.Keys(keys))
	slices.SortStableFunc(order, func(a, b string) int { return -cmp.Compare(len(changed[a]), len(changed[b])) })
	for i, key := range order {
		measure, values := b.valuesOf(key, runs)
		s.Measures, s.Values = append(s.Measures, measure), append(s.Values, values)
		if c := changed[key]; c != nil {
			s.Changes[i] = c
		}
	}
	return s
}

// valuesOf returns which measure of Data a key is, and what each run has of it.
func (b *builder) valuesOf(key string, runs []oneRun) (measure int, out figures) {
	for _, r := range runs {
		m, ok := r.Measures[key]
		if !ok {
			out = append(out, nil)
			continue
		}
		out = append(out, &m.Value)
		id := key + "\x00" + m.Unit + "\x00" + m.Better
		if _, known := b.measures[id]; !known {
			title, direction, _ := compare.Title(key, m)
			b.measures[id] = len(b.data.Measures)
			b.data.Measures = append(b.data.Measures, Measure{cutName(key), cutName(title), cutName(m.Unit), direction})
		}
		measure = b.measures[id] // of the newest run, should they differ
	}
	return measure, out
}

// versionsOf returns the index of a set of versions.
func (b *builder) versionsOf(v map[string]string) int {
	id := fmt.Sprint(v)
	if _, known := b.versions[id]; !known {
		b.versions[id] = len(b.data.Versions)
		cut := map[string]string{}
		for name, version := range v {
			cut[cutName(name)] = cutName(version)
		}
		b.data.Versions = append(b.data.Versions, cut)
	}
	return b.versions[id]
}

// findChanges looks for changes of level among the runs that can be compared, as package
// history does: the newest hundred.
func (b *builder) findChanges(s *Series, runs []oneRun) map[string][]Change {
	f := &history.File{Format: history.Format, Scenario: s.Scenario}
	at := map[time.Time]int{}
	for i, r := range runs {
		if r.LeftOut == "" {
			f.Entries = append(f.Entries, r.Entry)
			at[r.Started] = i
		}
	}
	if n := len(runs) - len(f.Entries); n > 0 {
		s.Sentence = fmt.Sprintf("%s %s not searched for changes: the verdict is unknown. ", unit.Count(n, "runs"), unit.Verb(n, "is", "are"))
	}
	if len(f.Entries) < 2*stats.MinSegment {
		s.Sentence += fmt.Sprintf("%s %s too few to show a change.", unit.Count(len(f.Entries), "runs"), unit.Verb(len(f.Entries), "is", "are"))
		return nil
	}
	r, err := history.Look(f, history.Options{Changes: b.changes})
	if err != nil {
		s.Sentence += err.Error()
		return nil
	}
	s.Sentence += r.Conclusion()
	looked := f.Entries[len(f.Entries)-len(r.Runs):]
	out := map[string][]Change{}
	for _, m := range r.Measures {
		for _, c := range m.Changes {
			out[m.Key] = append(out[m.Key], Change{at[looked[c.At].Started], c.Before, c.After, stateOf(m, c), c.Text()})
		}
	}
	return out
}

// stateOf says what a reader has to do with a change.
func stateOf(m history.Measure, c history.Change) string {
	switch {
	case c.Accepted:
		return accepted
	case c.Suspected:
		return suspected
	case (c.After > c.Before) == (m.Better == compare.Higher):
		return better
	}
	return worse
}

// labelSeries names the series of each scenario by what differs among them.
func labelSeries(all []*Series) {
	byScenario := map[string][]*Series{}
	for _, s := range all {
		byScenario[s.Scenario] = append(byScenario[s.Scenario], s)
	}
	for _, group := range byScenario {
		names := map[string]bool{}
		for _, s := range group {
			for name := range s.Parameters {
				names[name] = true
			}
		}
		differ := func(of func(*Series) string) bool {
			return slices.ContainsFunc(group, func(s *Series) bool { return of(s) != of(group[0]) })
		}
		var parts []func(*Series) string
		for _, name := range slices.Sorted(maps.Keys(names)) {
			if differ(func(s *Series) string { return s.Parameters[name] }) {
				parts = append(parts, func(s *Series) string { return name + "=" + s.Parameters[name] })
			}
		}
		for _, part := range []func(*Series) string{func(s *Series) string { return s.Machine }, func(s *Series) string { return "scenario text " + s.Text }} {
			if differ(part) {
				parts = append(parts, part)
			}
		}
		for _, s := range group {
			var label []string
			for _, part := range parts {
				label = append(label, part(s))
			}
			s.Label = cutName(strings.Join(label, ", "))
		}
	}
}

func machineText(m record.Machine) string {
	return cutName(fmt.Sprintf("%s, %s, %s, %s", unit.Count(m.Cores, "cores"), m.CPU, unit.Bytes(m.MemoryBytes).Human(), m.Arch))
}

// cutName bounds a text that somebody has chosen.
func cutName(s string) string {
	if utf8.RuneCountInString(s) <= maxName {
		return s
	}
	return string([]rune(s)[:maxName]) + "…"
}

// count counts the verdicts of a series.
func (s *Series) count(v slo.Verdict) int { return strings.Count(s.Verdicts, string(v[0])) }
