package promql

import (
	"math"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// iterator gives a series' samples to the engine, in milliseconds.
type iterator struct {
	db     *DB
	cursor *series.Cursor
	now    int64
}

// wallMilliseconds is when a moment of the run was, on the wall.
func (d *DB) wallMilliseconds(t clock.Time) int64 { return d.Wall(t).UnixMilli() }

// Next goes on to a sample of a later millisecond.
func (i *iterator) Next() chunkenc.ValueType { return i.moveAfter(i.cursor.Next) }

// unixMilli is an int64 under a name of its own, so that go vet does not take
// Seek for an io.Seeker's.
type unixMilli = int64

// Seek goes on to the first sample of a millisecond or later.
func (i *iterator) Seek(ms unixMilli) chunkenc.ValueType {
	if i.now >= ms {
		return i.valueType()
	}
	return i.moveAfter(func() bool { return i.cursor.Seek(i.db.Moment(time.UnixMilli(ms))) })
}

func (i *iterator) moveAfter(move func() bool) chunkenc.ValueType {
	for ok := move(); ok; ok = i.cursor.Next() {
		if ms := i.db.wallMilliseconds(i.cursor.At()); ms > i.now {
			i.now = ms
			return i.valueType()
		}
	}
	return chunkenc.ValNone
}

// valueType says what the cursor stands at. The end of a series of histograms is
// told by a value too.
func (i *iterator) valueType() chunkenc.ValueType {
	if i.cursor.IsHistogram() && !i.cursor.Stale() {
		return chunkenc.ValHistogram
	}
	return chunkenc.ValFloat
}

func (i *iterator) At() (int64, float64) {
	if i.cursor.Stale() {
		return i.now, math.Float64frombits(value.StaleNaN)
	}
	return i.now, i.cursor.Value()
}

func (i *iterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	if h == nil {
		h = &histogram.Histogram{}
	}
	toNative(h, i.cursor.Histogram())
	return i.now, h
}

func (i *iterator) AtFloatHistogram(fh *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	_, h := i.AtHistogram(nil)
	return i.now, h.ToFloat(fh)
}

func (i *iterator) AtT() int64 { return i.now }

// AtST would be when a counter began, which is not recorded.
func (*iterator) AtST() int64 { return 0 }

func (*iterator) Err() error { return nil }

// toNative puts a recorded histogram into Prometheus' form.
func toNative(to *histogram.Histogram, from *record.Histogram) {
	*to = histogram.Histogram{Schema: from.Schema, ZeroThreshold: from.ZeroThreshold, ZeroCount: from.ZeroCount, Count: from.Count, Sum: from.Sum}
	to.PositiveSpans, to.PositiveBuckets = toSpans(from.Positive)
	to.NegativeSpans, to.NegativeBuckets = toSpans(from.Negative)
}

// toSpans writes buckets as runs of neighbours, and their counts as differences.
func toSpans(buckets []record.Bucket) ([]histogram.Span, []int64) {
	var out []histogram.Span
	deltas := make([]int64, 0, len(buckets))
	var count int64
	next := int32(0)
	for n, b := range buckets {
		if n == 0 || b.Index != next {
			out = append(out, histogram.Span{Offset: b.Index - next})
		}
		out[len(out)-1].Length++
		next = b.Index + 1
		deltas = append(deltas, int64(b.Count)-count)
		count = int64(b.Count)
	}
	return out, deltas
}
