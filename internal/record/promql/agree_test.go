package promql_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	engine "github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func contextCanceled(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}

// plain is the storage of a server that keeps every sample of every scrape and
// a marker where a series or its target is no more: what ours must be like.
type plain []storage.Series

func (p plain) Querier(_, _ int64) (storage.Querier, error) { return plainQuerier{p}, nil }

type plainQuerier struct{ plain }

func (plainQuerier) Close() error { return nil }
func (plainQuerier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (plainQuerier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (q plainQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var out []storage.Series
	for _, s := range q.plain {
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
			out = append(out, s)
		}
	}
	return &plainSet{all: out}
}

type plainSet struct {
	all []storage.Series
	at  int
}

func (s *plainSet) Next() bool                      { s.at++; return s.at <= len(s.all) }
func (s *plainSet) At() storage.Series              { return s.all[s.at-1] }
func (*plainSet) Err() error                        { return nil }
func (*plainSet) Warnings() annotations.Annotations { return nil }

type sample struct {
	t int64
	v float64
	h *histogram.Histogram
}

func (s sample) ST() int64                     { return 0 }
func (s sample) T() int64                      { return s.t }
func (s sample) F() float64                    { return s.v }
func (s sample) H() *histogram.Histogram       { return s.h }
func (s sample) FH() *histogram.FloatHistogram { return s.h.ToFloat(nil) }
func (s sample) Copy() chunks.Sample           { return s }
func (s sample) Type() chunkenc.ValueType {
	if s.h != nil {
		return chunkenc.ValHistogram
	}
	return chunkenc.ValFloat
}

// keep stores looks as that server would.
func keep(targets map[string][]look) plain {
	var out plain
	stale := math.Float64frombits(value.StaleNaN)
	for target, looks := range targets {
		lists, order := map[string][]chunks.Sample{}, map[string]labels.Labels{}
		live := map[string]bool{}
		for _, l := range looks {
			ms := epoch.Add(time.Duration(l.at)).UnixMilli()
			now := map[string]bool{}
			for _, s := range l.seen {
				if l.failed {
					break
				}
				key := s.labels.String()
				order[key] = s.labels
				now[key] = true
				lists[key] = append(lists[key], sample{ms, s.value, wide(s.native)})
			}
			for key := range live {
				if !now[key] {
					lists[key] = append(lists[key], sample{t: ms, v: stale})
				}
			}
			live = now
		}
		for key, list := range lists {
			lset := labels.NewBuilder(order[key]).Set("job", target).Set("instance", target).Set("component", target).Labels()
			out = append(out, storage.NewListSeries(lset, list))
		}
	}
	slices.SortFunc(out, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return out
}

// wide is a histogram in Prometheus' form, each bucket with a span of its own.
func wide(h *record.Histogram) *histogram.Histogram {
	if h == nil {
		return nil
	}
	out := &histogram.Histogram{Schema: h.Schema, ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum}
	next, last := int32(0), int64(0)
	for _, b := range h.Positive {
		out.PositiveSpans = append(out.PositiveSpans, histogram.Span{Offset: b.Index - next, Length: 1})
		out.PositiveBuckets = append(out.PositiveBuckets, int64(b.Count)-last)
		next, last = b.Index+1, int64(b.Count)
	}
	return out
}

// flight makes up the scrapes of a target: counters, gauges and histograms that
// come, go, stand still and start anew, and scrapes that fail.
func flight(rng *rand.Rand) []look {
	type state struct {
		v      float64
		h      record.Histogram
		absent bool
	}
	states := make([]state, 9)
	var looks []look
	at := clock.Time(rng.IntN(3000)) * clock.Time(time.Millisecond)
	for range 150 {
		l := look{at: at, failed: rng.IntN(15) == 0}
		at = at.Add(5*time.Second + time.Duration(rng.IntN(40)-20)*time.Millisecond)
		restart := rng.IntN(40) == 0
		for i := range states {
			s := &states[i]
			if rng.IntN(25) == 0 {
				s.absent = !s.absent
			}
			if restart {
				*s = state{}
			}
			switch rng.IntN(3) {
			case 0: // busy
				s.v += float64(rng.IntN(20))
				s.h.Schema = 3
				s.h.Positive = observe(rng, s.h.Positive)
				s.h.Count++
				s.h.Sum += 0.25
			case 1:
				s.v += rng.Float64()
			}
			if s.absent {
				continue
			}
			one := seen{labels: labels.FromStrings("__name__", [...]string{"c_total", "g", "h"}[i%3], "n", fmt.Sprint(i/3)), value: s.v}
			if i%3 == 2 {
				one.native, one.value = s.h.Clone(), 0
			}
			l.seen = append(l.seen, one)
		}
		looks = append(looks, l)
	}
	return looks
}

func observe(rng *rand.Rand, buckets []record.Bucket) []record.Bucket {
	index := int32(rng.IntN(40) - 20)
	i, found := slices.BinarySearchFunc(buckets, index, func(b record.Bucket, i int32) int { return int(b.Index) - int(i) })
	if !found {
		buckets = slices.Insert(buckets, i, record.Bucket{Index: index})
	}
	buckets[i].Count++
	return buckets
}

// Whatever is scraped, asking our few samples gives what asking all of them
// gives: at moments, over ranges, in subqueries, of what is gone and of what
// could not be read.
func TestAgreesWithAServerThatKeepsEverySample(t *testing.T) {
	exprs := []string{
		`c_total`, `g{n="1"}`, `{job="etcd",n!=""}`, `h`, `rate(c_total[30s])`, `increase(c_total[1m])`, `irate(c_total[20s])`, `delta(g[45s])`,
		`sum by (job) (rate(c_total[1m]))`, `count_over_time(g[33s])`, `changes(g[1m])`, `resets(c_total[2m])`, `last_over_time(g[7s])`,
		`quantile_over_time(0.9, g[1m:7s])`, `histogram_quantile(0.99, rate(h[40s]))`, `histogram_quantile(0.5, sum(h))`, `histogram_count(increase(h[1m]))`,
		`absent(g{n="2"})`, `present_over_time(c_total[11s])`, `timestamp(g)`, `c_total offset 12s`, `max_over_time(rate(c_total[20s])[1m:])`,
		`g @ end()`, `topk(1, g)`, `avg(g) without (n)`, `deriv(g[1m])`, `predict_linear(g[1m], 30)`, `count({__name__=~".+",n!=""})`,
	}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 7))
		targets := map[string][]look{"etcd": flight(rng), "kube-apiserver": flight(rng)}
		db := open(t, recordStream(t, targets))
		reference := keep(targets)
		eng := engine.NewEngine(engine.EngineOpts{MaxSamples: 1e8, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
			NoStepSubqueryIntervalFn: func(int64) int64 { return 5000 }, EnableAtModifier: true, EnableNegativeOffset: true})
		for _, expr := range exprs {
			from, to, step := clock.Time(0), clock.Time(13*time.Minute), time.Duration(1+rng.IntN(20_000))*time.Millisecond
			r, err := db.Range(t.Context(), expr, from, to, step)
			if err != nil {
				t.Fatalf("%s: %v", expr, err)
			}
			q := repotest.Must(eng.NewRangeQuery(t.Context(), reference, nil, expr, db.Wall(from), db.Wall(to), step))(t)
			want := repotest.Must(q.Exec(t.Context()).Matrix())(t)
			if len(want) == 0 && expr != `absent(g{n="2"})` {
				t.Errorf("seed %d: %s asks for nothing", seed, expr)
			}
			if got, want := ours(db, r.Series), theirs(want); !slices.Equal(got, want) {
				t.Errorf("seed %d: %s step %v: %s", seed, expr, step, differs(got, want))
			}
			q.Close()
		}
	}
}

// differs shows where two answers first differ.
func differs(got, want []string) string {
	for i := range max(len(got), len(want)) {
		var a, b []string
		if i < len(got) {
			a = strings.Fields(got[i])
		}
		if i < len(want) {
			b = strings.Fields(want[i])
		}
		for n := range max(len(a), len(b)) {
			if n >= len(a) || n >= len(b) || a[n] != b[n] {
				return fmt.Sprintf("series %d (of %d, %d), point %d: got %.200q, want %.200q", i, len(got), len(want), n,
					a[min(n, len(a)):min(n+2, len(a))], b[min(n, len(b)):min(n+2, len(b))])
			}
		}
	}
	return ""
}

// ours and theirs write an answer as text, a line for each series.
func ours(db *promql.DB, all []promql.Series) (out []string) {
	for _, s := range all {
		line := s.String()
		for _, p := range s.Points {
			line += fmt.Sprintf(" %d:", db.Wall(p.At).UnixMilli())
			if p.Histogram == nil {
				line += fmt.Sprint(p.Value)
				continue
			}
			line += fmt.Sprintf("%v/%v", p.Histogram.Count, p.Histogram.Sum)
			for _, b := range p.Histogram.Buckets {
				line += fmt.Sprintf(",%.6g-%.6g=%.6g", b.Lower, b.Upper, b.Count)
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

func theirs(m engine.Matrix) (out []string) {
	for _, s := range m {
		at := map[int64]string{}
		for _, p := range s.Floats {
			at[p.T] = fmt.Sprint(p.F)
		}
		for _, p := range s.Histograms {
			at[p.T] = fmt.Sprintf("%v/%v", p.H.Count, p.H.Sum)
			for it := p.H.AllBucketIterator(); it.Next(); {
				if b := it.At(); b.Count != 0 {
					at[p.T] += fmt.Sprintf(",%.6g-%.6g=%.6g", b.Lower, b.Upper, b.Count)
				}
			}
		}
		line := promql.Series{Labels: definition("", s.Metric).Labels}.String()
		if name := s.Metric.Get(labels.MetricName); name != "" {
			line = name + line
		}
		for _, t := range slices.Sorted(maps.Keys(at)) {
			line += fmt.Sprintf(" %d:%s", t, at[t])
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}
