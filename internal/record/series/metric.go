package series

import (
	"math"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/windtunnel/windtunnel/internal/record"
)

// slot is one value of a metric. Of a histogram and of a summary they are its
// count, its sum and then its buckets or quantiles.
type slot struct {
	part  int     // which of the family's names
	bound float64 // le or quantile
	index int     // -1 where it is not accepted
	value float64
}

// The places of the names in protoFamily.names.
const (
	partPlain = iota
	partBucket
	partSum
	partCount
)

// The fields of Metric, and of the messages in it.
const (
	metricLabel, metricGauge, metricCounter, metricSummary, metricUntyped, metricHistogram = 1, 2, 3, 4, 5, 7

	simpleValue                                        = 1
	labelName, labelValue                              = 1, 2
	summaryCount, summarySum, summaryQuantile          = 1, 2, 3
	quantileBound, quantileValue                       = 1, 2
	histogramCount, histogramSum, histogramBucket      = 1, 2, 3
	histogramCountFloat                                = 4
	bucketCount, bucketBound, bucketCountFloat         = 1, 2, 4
	nativeSchema, nativeZeroThreshold, nativeZeroCount = 5, 6, 7
	nativeZeroFloat                                    = 8
	nativeNegSpan, nativeNegDelta, nativeNegFloat      = 9, 10, 11
	nativePosSpan, nativePosDelta, nativePosFloat      = 12, 13, 14
	spanOffset, spanLength                             = 1, 2
)

// readMetric reads one metric's message and tells what changed.
func (t *Tracker) readMetric(f *protoFamily, raw []byte, d *Delta) (*protoMetric, error) {
	m, err := f.findMetric(raw)
	if err != nil {
		return nil, err
	}
	r := metricReader{slots: make([]slot, 0, max(1, len(m.slots)))}
	if !r.readMetric(raw) {
		return nil, errProto("a metric")
	}
	t.takeSlots(f, m, r.slots, d)
	if r.native && f.accepted[partPlain] {
		if m.native < 0 {
			m.native = t.addPoint(Point{Name: f.Name, Labels: m.labels})
			m.hist = &record.Histogram{}
		}
		if !m.live || t.resend || !m.hist.Equal(&r.hist) {
			*m.hist = r.hist
			d.Histograms = append(d.Histograms, HistogramChange{m.native, m.hist})
		}
	}
	return m, nil
}

// takeSlots takes a metric's values. A histogram whose bounds are not those that it
// had gets new points for them.
func (t *Tracker) takeSlots(f *protoFamily, m *protoMetric, now []slot, d *Delta) {
	before := m.slots
	for i := range now {
		s := &now[i]
		if i < len(before) && before[i].part == s.part && sameValue(before[i].bound, s.bound) {
			s.index = before[i].index
		} else {
			s.index = t.slotIndex(f, m, *s)
		}
		if s.index >= 0 {
			t.setValue(s.index, s.value, !m.live, d)
		}
	}
	for _, s := range before {
		if s.index >= 0 && !slices.ContainsFunc(now, func(n slot) bool { return n.index == s.index }) {
			d.Gone = append(d.Gone, s.index)
		}
	}
	m.slots = now
}

// slotIndex returns the index of a value that its metric did not have in this place
// before; it may have had it in another.
func (t *Tracker) slotIndex(f *protoFamily, m *protoMetric, s slot) int {
	for _, b := range m.slots {
		if b.part == s.part && sameValue(b.bound, s.bound) {
			return b.index
		}
	}
	if !f.accepted[s.part] {
		return -1
	}
	p := Point{Name: f.names[s.part], Labels: m.labels}
	switch {
	case s.part == partBucket:
		p.Labels = withLabel(m.labels, "le", formatBound(s.bound))
	case !math.IsInf(s.bound, -1):
		p.Labels = withLabel(m.labels, "quantile", formatBound(s.bound))
	}
	return t.addPoint(p)
}

// withLabel returns sorted labels with one more.
func withLabel(labels []record.Label, name, value string) []record.Label {
	out := append(make([]record.Label, 0, len(labels)+1), labels...)
	out = append(out, record.Label{Name: name, Value: value})
	sortLabels(out)
	return out
}

// formatBound writes a bound as the text format does.
func formatBound(v float64) string {
	if math.IsInf(v, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// countPoints is how many points a metric has.
func (m *protoMetric) countPoints() int {
	n := 0
	for _, s := range m.slots {
		if s.index >= 0 {
			n++
		}
	}
	if m.native >= 0 {
		n++
	}
	return n
}

// reportGone tells that a metric is no longer there.
func (m *protoMetric) reportGone(d *Delta) {
	for _, s := range m.slots {
		if s.index >= 0 {
			d.Gone = append(d.Gone, s.index)
		}
	}
	if m.native >= 0 {
		d.Gone = append(d.Gone, m.native)
	}
}

// findMetric finds a metric by the bytes of its labels, which come first in its
// message.
func (f *protoFamily) findMetric(raw []byte) (*protoMetric, error) {
	end := 0
	ok := forEachField(raw, func(one field) bool {
		if one.num == metricLabel {
			end = one.end
		}
		return one.num == metricLabel
	})
	if !ok {
		return nil, errProto("a metric")
	}
	if m, known := f.byLabels[string(raw[:end])]; known {
		return m, nil
	}
	m := &protoMetric{native: -1}
	forEachField(raw[:end], func(one field) bool {
		var l record.Label
		ok = ok && forEachField(one.b, func(part field) bool {
			switch part.num {
			case labelName:
				l.Name = string(part.b)
			case labelValue:
				l.Value = string(part.b)
			}
			return true
		})
		m.labels = append(m.labels, l)
		return true
	})
	if !ok {
		return nil, errProto("a label")
	}
	sortLabels(m.labels)
	f.byLabels[string(raw[:end])] = m
	f.all = append(f.all, m)
	return m, nil
}

// metricReader reads the values of one metric.
type metricReader struct {
	slots  []slot
	hist   record.Histogram
	native bool
}

func (r *metricReader) addSlot(part int, bound, value float64) {
	r.slots = append(r.slots, slot{part, bound, -1, value})
}

// readMetric reads a Metric; it is false where that is damaged.
func (r *metricReader) readMetric(raw []byte) bool {
	fine := true
	ok := forEachField(raw, func(f field) bool {
		switch f.num {
		case metricGauge, metricCounter, metricUntyped:
			value := 0.0
			fine = forEachField(f.b, func(v field) bool {
				if v.num == simpleValue {
					value = v.asFloat()
				}
				return true
			})
			r.addSlot(partPlain, math.Inf(-1), value)
		case metricSummary:
			fine = r.readSummary(f.b)
		case metricHistogram:
			fine = r.readHistogram(f.b)
		}
		return fine
	})
	return ok && fine
}

func (r *metricReader) readSummary(raw []byte) bool {
	fine := true
	r.addSlot(partCount, math.Inf(-1), 0)
	r.addSlot(partSum, math.Inf(-1), 0)
	ok := forEachField(raw, func(f field) bool {
		switch f.num {
		case summaryCount:
			r.slots[0].value = float64(f.v)
		case summarySum:
			r.slots[1].value = f.asFloat()
		case summaryQuantile:
			var bound, value float64
			fine = forEachField(f.b, func(q field) bool {
				switch q.num {
				case quantileBound:
					bound = q.asFloat()
				case quantileValue:
					value = q.asFloat()
				}
				return true
			})
			r.addSlot(partPlain, bound, value)
		}
		return fine
	})
	return ok && fine
}

// readHistogram reads a Histogram: classic buckets, a native histogram, or both.
// The bucket without an upper end need not be there, it holds all values.
func (r *metricReader) readHistogram(raw []byte) bool {
	var n nativeReader
	fine, count, sum := true, 0.0, 0.0
	r.addSlot(partCount, math.Inf(-1), 0)
	r.addSlot(partSum, math.Inf(-1), 0)
	ok := forEachField(raw, func(f field) bool {
		switch f.num {
		case histogramCount:
			count, n.Count = float64(f.v), f.v
		case histogramCountFloat:
			if v := f.asFloat(); v > 0 {
				count, n.float = v, true
			}
		case histogramSum:
			sum, n.Sum = f.asFloat(), f.asFloat()
		case histogramBucket:
			fine = r.readBucket(f.b)
		default:
			fine = n.readField(f)
		}
		return fine
	})
	if !ok || !fine {
		return false
	}
	r.slots[0].value, r.slots[1].value = count, sum
	r.native, r.hist = n.toHistogram()
	classic := len(r.slots) > 2
	if last := r.slots[len(r.slots)-1]; (classic || !r.native) && !math.IsInf(last.bound, 1) {
		r.addSlot(partBucket, math.Inf(1), count)
	}
	return true
}

func (r *metricReader) readBucket(raw []byte) bool {
	var bound, count float64
	ok := forEachField(raw, func(f field) bool {
		switch f.num {
		case bucketCount:
			count = float64(f.v)
		case bucketCountFloat:
			if v := f.asFloat(); v > 0 {
				count = v
			}
		case bucketBound:
			bound = f.asFloat()
		}
		return true
	})
	r.addSlot(partBucket, bound, count)
	return ok
}

// nativeReader reads the fields of a native histogram.
type nativeReader struct {
	record.Histogram
	float              bool // counts that are no whole numbers, which are not kept
	posSpans, negSpans []span
	positive, negative []int64 // deltas
}

type span struct {
	offset int32
	length uint32
}

func (n *nativeReader) readField(f field) bool {
	ok := true
	switch f.num {
	case nativeSchema:
		n.Schema = int32(f.asSigned())
	case nativeZeroThreshold:
		n.ZeroThreshold = f.asFloat()
	case nativeZeroCount:
		n.ZeroCount = f.v
	case nativeZeroFloat, nativeNegFloat, nativePosFloat:
		n.float = true
	case nativeNegSpan:
		n.negSpans, ok = appendSpan(n.negSpans, f.b)
	case nativePosSpan:
		n.posSpans, ok = appendSpan(n.posSpans, f.b)
	case nativeNegDelta:
		n.negative, ok = appendDeltas(n.negative, f)
	case nativePosDelta:
		n.positive, ok = appendDeltas(n.positive, f)
	}
	return ok
}

func appendSpan(spans []span, raw []byte) ([]span, bool) {
	var s span
	ok := forEachField(raw, func(f field) bool {
		switch f.num {
		case spanOffset:
			s.offset = int32(f.asSigned())
		case spanLength:
			s.length = uint32(f.v)
		}
		return true
	})
	return append(spans, s), ok
}

// appendDeltas reads a repeated sint64, packed or not.
func appendDeltas(deltas []int64, f field) ([]int64, bool) {
	if f.b == nil {
		return append(deltas, f.asSigned()), true
	}
	for b := f.b; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return deltas, false
		}
		deltas = append(deltas, protowire.DecodeZigZag(v))
		b = b[n:]
	}
	return deltas, true
}

// toHistogram says whether there was a native histogram, as Prometheus tells one
// from a classic one that has no values: by its spans or its zero bucket.
func (n *nativeReader) toHistogram() (bool, record.Histogram) {
	if n.float || len(n.posSpans)+len(n.negSpans) == 0 && n.ZeroThreshold == 0 && n.ZeroCount == 0 {
		return false, record.Histogram{}
	}
	// Of other resolutions, such as that of custom buckets, nobody here knows the bounds.
	if n.Schema < record.MinSchema || n.Schema > record.MaxSchema {
		return false, record.Histogram{}
	}
	var ok, also bool
	n.Positive, ok = bucketsOfSpans(n.posSpans, n.positive)
	n.Negative, also = bucketsOfSpans(n.negSpans, n.negative)
	return ok && also, n.Histogram
}

// bucketsOfSpans puts the counts of spans, which are told as differences to the one
// before, in their places. It is false where they do not fit together.
func bucketsOfSpans(spans []span, deltas []int64) ([]record.Bucket, bool) {
	if len(deltas) > record.MaxBuckets {
		return nil, false
	}
	out := make([]record.Bucket, 0, len(deltas))
	index, count := int64(0), int64(0)
	for i, s := range spans {
		if i > 0 && s.offset < 0 {
			return nil, false
		}
		index += int64(s.offset)
		for range s.length {
			if len(deltas) == 0 {
				return nil, false
			}
			count += deltas[0]
			deltas = deltas[1:]
			if count < 0 || index != int64(int32(index)) {
				return nil, false
			}
			if count > 0 {
				out = append(out, record.Bucket{Index: int32(index), Count: uint64(count)})
			}
			index++
		}
	}
	return out, len(deltas) == 0
}
