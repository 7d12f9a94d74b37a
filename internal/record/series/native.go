package series

import (
	"iter"
	"maps"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// native holds the samples of a native histogram, each as what it differs in
// from the one before.
type native struct {
	coded []byte
	last  record.Histogram
}

func (n *native) addHistogram(h *record.Histogram) {
	n.coded = record.AppendHistogram(n.coded, &n.last, h)
	n.last = *h.Clone()
}

// eachHistogram gives the samples of a native histogram in the order of time, each
// valid until the next.
func (s *Series) eachHistogram() iter.Seq2[clock.Time, *record.Histogram] {
	return func(yield func(clock.Time, *record.Histogram) bool) {
		var h record.Histogram
		coded := s.native.coded
		for _, at := range s.at {
			var err error
			if coded, err = record.DecodeHistogram(coded, &h); err != nil { // the store wrote it itself
				panic(err)
			}
			if !yield(at, &h) {
				return
			}
		}
	}
}

// growth is by how much native histograms grew: how many values fell into each
// bucket. Values below 0 count as being 0.
type growth struct {
	schema     int32
	threshold  float64 // of the bucket around 0
	zero       float64
	buckets    map[int32]float64
	count, sum float64
}

// growthBetween returns by how much a native histogram grew from one moment to
// another, by the rules of Increase: a fall is taken for a restart from nothing,
// and one that was there when its target was first looked at counts from that
// look. It is false where nothing is known of the time.
func (s *Series) growthBetween(from, to clock.Time) (growth, bool) {
	var total growth
	var begin, last *record.Histogram // of the stretch in which it only grew
	known := false
	for at, h := range s.eachHistogram() {
		if at > to {
			break
		}
		known = true
		switch {
		case at <= from, last == nil && !s.target.lookedAtBefore(s.at[0]):
			begin = h.Clone()
		case last == nil || hasOnlyGrown(last, h):
		default:
			total.addGrowth(growthSince(begin, last))
			total.addGrowth(growthSince(last, h))
			begin = h.Clone()
		}
		last = h.Clone()
	}
	if known {
		total.addGrowth(growthSince(begin, last))
	}
	return total, known
}

// hasOnlyGrown says whether h is last with more values, plainly: in the same buckets.
func hasOnlyGrown(last, h *record.Histogram) bool {
	if h.Count < last.Count || h.ZeroCount < last.ZeroCount || h.Schema != last.Schema || h.ZeroThreshold != last.ZeroThreshold {
		return false
	}
	i := 0
	for _, l := range last.Positive {
		for i < len(h.Positive) && h.Positive[i].Index < l.Index {
			i++
		}
		if i == len(h.Positive) || h.Positive[i].Index != l.Index || h.Positive[i].Count < l.Count {
			return false
		}
	}
	return true
}

// growthSince is by how much a histogram grew since begin, nil being nothing.
func growthSince(begin, end *record.Histogram) growth {
	out := growth{schema: end.Schema}
	out.addHistogram(end, 1)
	if begin == nil || begin.Schema < end.Schema { // finer ones come with a restart only
		return out
	}
	out.addHistogram(begin, -1)
	fewer := out.zero < 0 || out.count < 0
	for _, n := range out.buckets {
		fewer = fewer || n < 0
	}
	if fewer { // it was restarted in between and soon had more values than before
		return growthSince(nil, end)
	}
	return out
}

// addHistogram adds a histogram's values, sign times.
func (g *growth) addHistogram(h *record.Histogram, sign float64) {
	one := growth{schema: h.Schema, threshold: h.ZeroThreshold, zero: sign * float64(h.ZeroCount),
		count: sign * float64(h.Count), sum: sign * h.Sum, buckets: map[int32]float64{}}
	for _, b := range h.Negative {
		one.zero += sign * float64(b.Count)
	}
	for _, b := range h.Positive {
		one.buckets[b.Index] += sign * float64(b.Count)
	}
	g.addGrowth(one)
}

// addGrowth adds another growth; both take the coarser one's buckets.
func (g *growth) addGrowth(o growth) {
	if g.buckets == nil {
		g.schema, g.buckets = o.schema, map[int32]float64{}
	}
	schema, threshold := min(g.schema, o.schema), max(g.threshold, o.threshold)
	a, b := g.toCoarser(schema, threshold), o.toCoarser(schema, threshold)
	for index, n := range b.buckets {
		a.buckets[index] += n
	}
	a.zero, a.count, a.sum = a.zero+b.zero, a.count+b.count, a.sum+b.sum
	*g = a
}

// toCoarser has fewer buckets: each step of the schema makes one of two. What
// lies within the threshold is in the bucket around 0.
func (g *growth) toCoarser(schema int32, threshold float64) growth {
	out := growth{schema: schema, threshold: threshold, zero: g.zero, count: g.count, sum: g.sum, buckets: map[int32]float64{}}
	steps := g.schema - schema
	for index, n := range g.buckets {
		index = (index-1)>>steps + 1
		if upTo(index, schema) <= threshold {
			out.zero += n
		} else {
			out.buckets[index] += n
		}
	}
	return out
}

// upTo is where a bucket ends.
func upTo(index, schema int32) float64 { return math.Exp2(math.Ldexp(float64(index), -int(schema))) }

// cumulativeCounts is how many values were up to each bound of a bucket that has any.
func (g *growth) cumulativeCounts() map[float64]float64 {
	out := map[float64]float64{}
	sum := g.zero
	if g.zero > 0 {
		out[g.threshold] = sum
	}
	for _, index := range slices.Sorted(maps.Keys(g.buckets)) {
		if n := g.buckets[index]; n > 0 {
			out[upTo(index-1, g.schema)] = sum
			sum += n
			out[upTo(index, g.schema)] = sum
		}
	}
	return out
}
