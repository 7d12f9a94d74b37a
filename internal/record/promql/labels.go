package promql

import (
	"errors"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Selector says which series are meant, for a person who looks for what there
// is: those that any of Match selects and that have a sample until To. No Match
// means all.
type Selector struct {
	Match []string // such as up{job="etcd"}
	To    clock.Time
}

// Series returns the labels of the selected series, sorted. The error of a
// faulty Match is an *ExprError.
func (d *DB) Series(s Selector) ([][]record.Label, error) {
	var out [][]record.Label
	err := d.eachLabelSet(s, func(l labels.Labels) { out = append(out, labelsOf(l)) })
	return out, err
}

// LabelNames returns the names of the labels of the selected series, sorted.
func (d *DB) LabelNames(s Selector) ([]string, error) {
	names := map[string]bool{}
	err := d.eachLabelSet(s, func(l labels.Labels) { l.Range(func(l labels.Label) { names[l.Name] = true }) })
	return slices.Sorted(maps.Keys(names)), err
}

// LabelValues returns the values of a label of the selected series, sorted.
func (d *DB) LabelValues(name string, s Selector) ([]string, error) {
	values := map[string]bool{}
	err := d.eachLabelSet(s, func(l labels.Labels) { values[l.Get(name)] = true })
	delete(values, "")
	return slices.Sorted(maps.Keys(values)), err
}

// eachLabelSet visits the labels of the selected series, each once, sorted.
func (d *DB) eachLabelSet(s Selector, visit func(labels.Labels)) error {
	sets, err := d.parseMatchers(s.Match)
	if err != nil {
		return err
	}
	d.mu.RLock()
	defer d.mu.RUnlock()
	var all []labelled
	for _, set := range sets {
		all = append(all, d.matchSeries(set)...)
	}
	if len(sets) > 1 {
		slices.SortStableFunc(all, func(a, b labelled) int { return labels.Compare(a.labels, b.labels) })
		all = slices.CompactFunc(all, func(a, b labelled) bool { return labels.Equal(a.labels, b.labels) })
	}
	for _, one := range all {
		if first, ok := one.First(); ok && first <= s.To {
			visit(one.labels)
		}
	}
	return nil
}

func (d *DB) parseMatchers(match []string) ([][]*labels.Matcher, error) {
	if len(match) == 0 {
		return [][]*labels.Matcher{nil}, nil
	}
	var out [][]*labels.Matcher
	for _, m := range match {
		set, err := d.parser.ParseMetricSelector(m)
		if err != nil {
			return nil, exprError(m, err)
		}
		if !slices.ContainsFunc(set, func(m *labels.Matcher) bool { return !m.Matches("") }) {
			return nil, &ExprError{Expr: m, Err: errors.New("a selector must say something that is there: an empty one selects everything")}
		}
		out = append(out, set)
	}
	return out, nil
}

// Families returns what the targets said of the families of their series: name,
// type and help.
func (d *DB) Families() []record.Family {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.Clone(d.store.Families())
}

// String writes labels in PromQL's notation, the metric's name first.
func (s Series) String() string {
	name := ""
	b := labels.NewScratchBuilder(len(s.Labels))
	for _, l := range s.Labels {
		if l.Name == labels.MetricName {
			name = l.Value
		} else {
			b.Add(l.Name, l.Value)
		}
	}
	b.Sort()
	return name + b.Labels().String()
}
