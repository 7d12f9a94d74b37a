package promql

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/windtunnel/windtunnel/internal/record/series"
)

// querier hands the store's series to the engine; the DB is locked meanwhile.
type querier struct{ db *DB }

func (d *DB) newQuerier(_, _ int64) (storage.Querier, error) { return querier{d}, nil }

func (querier) Close() error { return nil }

// LabelValues and LabelNames are no part of evaluating an expression; DB has
// its own.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

// Select returns the series that match and have a sample before the end of
// what is asked for.
func (q querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	end := int64(math.MaxInt64)
	if hints != nil {
		end = hints.End
	}
	var found []storage.Series
	for _, s := range q.db.matchSeries(matchers) {
		if ctx.Err() != nil {
			return storage.ErrSeriesSet(ctx.Err())
		}
		if first, ok := s.First(); ok && q.db.wallMilliseconds(first) <= end {
			found = append(found, &storage.SeriesEntry{Lset: s.labels, SampleIteratorFn: q.db.newIterator(s.Series)})
		}
	}
	return &set{series: found}
}

func (d *DB) newIterator(s *series.Series) func(chunkenc.Iterator) chunkenc.Iterator {
	return func(chunkenc.Iterator) chunkenc.Iterator {
		return &iterator{db: d, cursor: s.Cursor(), now: math.MinInt64}
	}
}

// set is a list of series.
type set struct {
	series []storage.Series
	at     int
}

func (s *set) Next() bool                      { s.at++; return s.at <= len(s.series) }
func (s *set) At() storage.Series              { return s.series[s.at-1] }
func (*set) Err() error                        { return nil }
func (*set) Warnings() annotations.Annotations { return nil }

// labelled is a series with the labels by which it is known.
type labelled struct {
	*series.Series
	labels labels.Labels
}

// matchSeries returns the series that match, sorted by their labels. Of several with
// the same labels it is the first.
func (d *DB) matchSeries(matchers []*labels.Matcher) []labelled {
	var out []labelled
	b := labels.NewScratchBuilder(12)
	for _, name := range d.matchNames(matchers) {
		for _, s := range d.store.Named(name) {
			b.Reset()
			b.Add(labels.MetricName, name)
			for _, l := range s.Exposed(d.options.Labels) {
				b.Add(l.Name, l.Value)
			}
			b.Sort()
			if l := b.Labels(); matchesLabels(l, matchers) {
				out = append(out, labelled{s, l})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b labelled) int { return labels.Compare(a.labels, b.labels) })
	return slices.CompactFunc(out, func(a, b labelled) bool { return labels.Equal(a.labels, b.labels) })
}

// matchNames returns the metric names that match.
func (d *DB) matchNames(matchers []*labels.Matcher) []string {
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			return []string{m.Value}
		}
	}
	var out []string
	for _, name := range d.store.Names() {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.Name == labels.MetricName && !m.Matches(name) }) {
			out = append(out, name)
		}
	}
	return out
}

func matchesLabels(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		value := l.Get(m.Name)
		if m.Name == "le" || m.Name == "quantile" {
			value = likeIn(m, value)
		}
		if !m.Matches(value) {
			return false
		}
	}
	return true
}

// likeIn writes a bound as the matcher does where they are the same number: a
// bound of 1 is le="1" in text and le="1.0" in newer versions of Prometheus,
// and queries for either are about.
func likeIn(m *labels.Matcher, value string) string {
	if m.Value == value || (m.Type != labels.MatchEqual && m.Type != labels.MatchNotEqual) {
		return value
	}
	asked, err := strconv.ParseFloat(m.Value, 64)
	if err != nil {
		return value
	}
	if has, err := strconv.ParseFloat(value, 64); err != nil || has != asked {
		return value
	}
	return m.Value
}
