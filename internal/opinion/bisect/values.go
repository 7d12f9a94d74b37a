package bisect

import (
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

// AddRun adds a run to the search, with what was measured in it: its counters and the measures
// that are judged, or all measures and counters that patterns name (see compare.Named). Of a
// run whose verdict is unknown only counters are believed; where the search goes by
// another measure it is unknown.
func (s *Search) AddRun(r Run, of compare.Run, patterns []string) {
	if s.Measures == nil {
		s.Measures = map[string]Measure{}
	}
	level := learn(s).level
	doubtful := of.Judgement.Verdict == slo.Unknown
	r.Values = map[string]float64{}
	add := func(key string, m Measure, value float64) {
		s.Measures[key], r.Values[key] = m, value
	}
	for key, m := range of.Judgement.Measures {
		title, better, judged := compare.Title(key, m)
		if !doubtful && (len(patterns) == 0 && judged || len(patterns) > 0 && compare.Named(patterns, key, title)) {
			add(key, Measure{Title: title, Unit: m.Unit, Higher: better == compare.Higher, Lower: better == compare.Lower}, m.Value)
		}
	}
	if of.Facts != nil {
		addCounters(of.Facts.Counters, patterns, add)
	}
	if doubtful && (len(r.Values) == 0 || level != nil && !level.counts) {
		r.State, r.Reason, r.Values = Unknown, of.Warning(), nil
	}
	s.Runs = append(s.Runs, r)
}

// addCounters adds counters as totals, for a count of few is not known as well as one of many.
func addCounters(counters []compare.Count, patterns []string, add func(string, Measure, float64)) {
	pods := 0.0
	for _, c := range counters {
		if c.Name == "created: pods" {
			pods = c.Value
		}
	}
	for _, c := range counters {
		if len(patterns) > 0 && !compare.Named(patterns, c.Name, c.Name) {
			continue
		}
		unit, perPod := strings.CutSuffix(c.Unit, "/pod")
		value := c.Value
		if perPod {
			value *= pods
		}
		add(c.Name+" ("+unit+")", Measure{Title: c.Name, Unit: unit, Counter: true}, value)
	}
}
