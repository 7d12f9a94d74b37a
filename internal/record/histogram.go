package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Histogram is the state of a native (sparse, exponential) histogram of
// Prometheus. Bucket i of resolution Schema ends at 2^(i/2^Schema), its upper
// bound included, and begins where bucket i-1 ends; Negative mirrors that.
// See https://prometheus.io/docs/specs/native_histograms/.
type Histogram struct {
	Schema        int32
	ZeroThreshold float64 // values up to this far from 0 are in ZeroCount
	ZeroCount     uint64
	Count         uint64
	Sum           float64
	Positive      []Bucket // by Index, ascending; empty ones may be left out
	Negative      []Bucket
}

// Bucket is one bucket of a native histogram with the number of its own values.
type Bucket struct {
	Index int32
	Count uint64
}

// copyFrom makes h a copy of o, in h's own memory.
func (h *Histogram) copyFrom(o *Histogram) {
	positive, negative := h.Positive, h.Negative
	*h = *o
	h.Positive, h.Negative = append(positive[:0], o.Positive...), append(negative[:0], o.Negative...)
}

// Clone returns a copy of h.
func (h *Histogram) Clone() *Histogram {
	out := &Histogram{}
	out.copyFrom(h)
	return out
}

// Equal says whether two histograms are the same bit for bit.
func (h *Histogram) Equal(o *Histogram) bool {
	return h.Schema == o.Schema && h.ZeroThreshold == o.ZeroThreshold && h.ZeroCount == o.ZeroCount && h.Count == o.Count &&
		math.Float64bits(h.Sum) == math.Float64bits(o.Sum) && slices.Equal(h.Positive, o.Positive) && slices.Equal(h.Negative, o.Negative)
}

// errHistogram says that bytes are no histogram.
var errHistogram = errors.New("histogram")

// The resolutions that native histograms have: a bucket ends 2^(2^-schema) times
// where it begins.
const (
	MinSchema = -4
	MaxSchema = 8
)

// MaxBuckets is how many buckets one sign of a histogram may have. At the finest
// resolution a factor of 2 takes 256 of them; client libraries stop at 160.
const MaxBuckets = 1 << 16

const (
	histogramAnew = iota // schema, zero threshold and all buckets follow
	histogramRise        // what rose since the last one
)

// AppendHistogram appends what h differs in from last, a few bytes where a few
// buckets rose. An empty last makes it stand on its own.
func AppendHistogram(b []byte, last, h *Histogram) []byte {
	if hasGrown(last, h) {
		b = append(b, histogramRise)
	} else {
		b = append(b, histogramAnew)
		b = binary.AppendVarint(b, int64(h.Schema))
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(h.ZeroThreshold))
		last = &Histogram{}
	}
	b = binary.AppendUvarint(b, h.Count-last.Count)
	b = binary.AppendUvarint(b, h.ZeroCount-last.ZeroCount)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(h.Sum))
	b = appendRises(b, last.Positive, h.Positive)
	return appendRises(b, last.Negative, h.Negative)
}

// hasGrown says whether h is last with more values in it.
func hasGrown(last, h *Histogram) bool {
	return last.Count > 0 && h.Count >= last.Count && h.ZeroCount >= last.ZeroCount && h.Schema == last.Schema &&
		h.ZeroThreshold == last.ZeroThreshold && containsBuckets(h.Positive, last.Positive) && containsBuckets(h.Negative, last.Negative)
}

// containsBuckets says whether buckets has all of last's, each with at least as many values.
func containsBuckets(buckets, last []Bucket) bool {
	i := 0
	for _, l := range last {
		for i < len(buckets) && buckets[i].Index < l.Index {
			i++
		}
		if i == len(buckets) || buckets[i].Index != l.Index || buckets[i].Count < l.Count {
			return false
		}
	}
	return true
}

// appendRises writes the buckets that are not as in last, which buckets holds.
func appendRises(b []byte, last, buckets []Bucket) []byte {
	n := 0
	forEachRise(last, buckets, func(Bucket) { n++ })
	b = binary.AppendUvarint(b, uint64(n))
	var at int32
	forEachRise(last, buckets, func(r Bucket) {
		b = binary.AppendVarint(b, int64(r.Index)-int64(at))
		b = binary.AppendUvarint(b, r.Count)
		at = r.Index
	})
	return b
}

// forEachRise calls f for each bucket that rose or is new, with by how much.
func forEachRise(last, buckets []Bucket, f func(Bucket)) {
	i := 0
	for _, bucket := range buckets {
		if i < len(last) && last[i].Index == bucket.Index {
			if bucket.Count > last[i].Count {
				f(Bucket{bucket.Index, bucket.Count - last[i].Count})
			}
			i++
			continue
		}
		f(bucket)
	}
}

// DecodeHistogram reads what AppendHistogram wrote, h being the last one that
// it was told from, and returns the bytes after it.
func DecodeHistogram(b []byte, h *Histogram) ([]byte, error) {
	c := &cursor{b: b}
	switch c.byte() {
	case histogramAnew:
		schema := c.int()
		if schema < MinSchema || schema > MaxSchema {
			return nil, fmt.Errorf("%w of schema %d, which is none from %d to %d", errHistogram, schema, MinSchema, MaxSchema)
		}
		h.copyFrom(&Histogram{Schema: int32(schema), ZeroThreshold: c.float()})
	case histogramRise:
	default:
		return nil, errHistogram
	}
	h.Count += c.uint()
	h.ZeroCount += c.uint()
	h.Sum = c.float()
	h.Positive = c.readRises(h.Positive)
	h.Negative = c.readRises(h.Negative)
	if c.bad != nil {
		return nil, errHistogram
	}
	return c.b, nil
}

// readRises adds what appendRises wrote to the buckets.
func (c *cursor) readRises(buckets []Bucket) []Bucket {
	n := c.uint()
	if n == 0 {
		return buckets
	}
	if n > uint64(len(c.b)/2) || n > MaxBuckets { // each takes two bytes at least
		c.failDamaged("buckets")
		return buckets
	}
	rose := make([]Bucket, 0, n)
	var index int64
	for c.bad == nil && uint64(len(rose)) < n {
		step := c.int()
		index += step
		if index < math.MinInt32 || index > math.MaxInt32 || (len(rose) > 0 && step <= 0) {
			c.failDamaged("bucket")
		}
		rose = append(rose, Bucket{int32(index), c.uint()})
	}
	if c.bad != nil {
		return buckets
	}
	if buckets = mergeBuckets(buckets, rose); len(buckets) > MaxBuckets {
		c.failDamaged("buckets")
	}
	return buckets
}

// mergeBuckets adds buckets to others, in others' memory where none is new.
func mergeBuckets(buckets, rose []Bucket) []Bucket {
	added := 0
	i := 0
	for _, r := range rose {
		for i < len(buckets) && buckets[i].Index < r.Index {
			i++
		}
		if i == len(buckets) || buckets[i].Index != r.Index {
			added++
		}
	}
	// From the end, so that what is there is moved once.
	from, to := len(buckets)-1, len(buckets)+added-1
	buckets = slices.Grow(buckets, added)[:len(buckets)+added]
	for k := len(rose) - 1; k >= 0; to-- {
		switch r := rose[k]; {
		case from >= 0 && buckets[from].Index > r.Index:
			buckets[to] = buckets[from]
			from--
		case from >= 0 && buckets[from].Index == r.Index:
			buckets[to] = Bucket{r.Index, buckets[from].Count + r.Count}
			from--
			k--
		default:
			buckets[to] = r
			k--
		}
	}
	return buckets
}
