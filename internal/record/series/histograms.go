package series

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Buckets is the increase of one histogram.
type Buckets struct {
	Labels []record.Label // those that it was grouped by, sorted by name
	UpTo   []float64      // ascending, the last is +Inf
	Counts []float64      // cumulative
	Sum    float64        // of NAME_sum
}

// Histograms returns the increases of a histogram family of one target between
// two moments, added up over the series that agree in the labels of by; keep
// decides by a series' labels whether it takes part, nil takes all. Groups
// are in the order of their labels' values. Histograms without an increase
// are left out; known is false when the family has no series at all.
//
// Where the family is a native histogram too, its bounds stand among the classic
// ones, so that a quantile is known as closely as either tells.
func (s *Store) Histograms(q HistogramQuery) (groups []Buckets, known bool) {
	sums := map[string]*grouped{}
	buckets := s.Select(q.Target, q.Family+"_bucket", q.Labels)
	restarts := findRestarts(buckets, q)
	for _, one := range buckets {
		known = true
		le, err := strconv.ParseFloat(one.Label("le"), 64)
		var at []clock.Time
		if len(restarts) > 0 {
			at = restarts[histogramOf(one)]
		}
		rise, ok := one.increaseWithRestarts(q.From, q.To, at)
		if err != nil || !ok || (q.Keep != nil && !q.Keep(one)) {
			continue
		}
		g := groupOf(sums, one, q.By)
		g.counts[le] += rise
	}
	for _, one := range s.Select(q.Target, q.Family+"_sum", q.Labels) {
		if rise, ok := one.Increase(q.From, q.To); ok && (q.Keep == nil || q.Keep(one)) {
			groupOf(sums, one, q.By).sum += rise
		}
	}
	for _, one := range s.Select(q.Target, q.Family, q.Labels) {
		if !one.IsHistogram() || (q.Keep != nil && !q.Keep(one)) {
			continue
		}
		known = true
		if rise, ok := one.growthBetween(q.From, q.To); ok {
			g := groupOf(sums, one, q.By)
			g.native.addGrowth(rise)
		}
	}
	return orderedBuckets(sums), known
}

// findRestarts says when histograms fell, all their values taken together: a bucket
// alone may have had so few that it does not show.
func findRestarts(buckets []*Series, q HistogramQuery) map[string][]clock.Time {
	out := map[string][]clock.Time{}
	for _, one := range buckets {
		if le, err := strconv.ParseFloat(one.Label("le"), 64); err == nil && math.IsInf(le, 1) {
			if at := one.findFalls(q.From, q.To); len(at) > 0 {
				out[histogramOf(one)] = at
			}
		}
	}
	return out
}

// histogramOf is the same for all buckets of a histogram.
func histogramOf(bucket *Series) string {
	b := append([]byte(bucket.Target), 0)
	for _, l := range bucket.Labels {
		if l.Name != "le" {
			b = append(append(append(append(b, l.Name...), 0), l.Value...), 0)
		}
	}
	return string(b)
}

// HistogramQuery says which histograms, over what time and how grouped.
type HistogramQuery struct {
	Target, Family string
	Labels         map[string]string // must be equal
	Keep           func(*Series) bool
	By             []string // names of labels, sorted
	From, To       clock.Time
}

type grouped struct {
	labels []record.Label
	counts map[float64]float64 // upper bound -> cumulative count
	sum    float64
	native growth
}

func groupOf(sums map[string]*grouped, one *Series, by []string) *grouped {
	key := make([]byte, 0, 64)
	for _, name := range by {
		key = append(append(key, one.Label(name)...), 0)
	}
	g, ok := sums[string(key)]
	if !ok {
		g = &grouped{counts: map[float64]float64{}}
		for _, name := range by {
			g.labels = append(g.labels, record.Label{Name: name, Value: one.Label(name)})
		}
		sums[string(key)] = g
	}
	return g
}

func orderedBuckets(sums map[string]*grouped) []Buckets {
	keys := make([]string, 0, len(sums))
	for key, g := range sums {
		g.addNativeBounds()
		if g.counts[math.Inf(1)] > 0 {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	out := make([]Buckets, 0, len(keys))
	for _, key := range keys {
		g := sums[key]
		b := Buckets{Labels: g.labels, Sum: g.sum, UpTo: slices.Sorted(maps.Keys(g.counts))}
		for _, le := range b.UpTo {
			b.Counts = append(b.Counts, g.counts[le])
		}
		out = append(out, b)
	}
	return out
}

// addNativeBounds puts the bounds of the native histogram among the classic ones. It
// does nothing where the two do not hold the same values, as when a process
// has classic buckets only.
func (g *grouped) addNativeBounds() {
	total, classic := g.counts[math.Inf(1)]
	if classic && total != g.native.count {
		return
	}
	if !classic && g.native.count > 0 {
		g.counts[math.Inf(1)], g.sum = g.native.count, g.native.sum
	}
	for le, count := range g.native.cumulativeCounts() {
		if _, known := g.counts[le]; !known {
			g.counts[le] = count
		}
	}
}
