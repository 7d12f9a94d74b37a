package record

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Scrape is one complete reading of a target's metrics: what changed since the
// reading before it. What is not named still has its last value. A reader
// visits Values, Histograms and Gone one by one after the Scrape itself.
type Scrape struct {
	Target     string
	At         clock.Time    // when the request was sent
	Took       time.Duration // until the answer was complete and read
	Points     int           // how many points the target served, of those that are kept
	Values     []Value
	Histograms []HistogramValue
	Gone       []SeriesID // series that were served the time before and are not now
}

// Value is the new value of a series in a Scrape.
type Value struct {
	Series SeriesID
	Value  float64
}

// HistogramValue is the new value of a native histogram in a Scrape.
type HistogramValue struct {
	Series SeriesID
	Value  *Histogram
}

// HistogramSample is one value of a native histogram. Value is valid only
// while it is being visited.
type HistogramSample struct {
	Series SeriesID
	At     clock.Time
	Value  *Histogram
}

// Gone says that a series was no longer served.
type Gone struct {
	Series SeriesID
	At     clock.Time
}

// Family describes the series of one name: NAME and, of a histogram or a
// summary, NAME_bucket, NAME_sum and NAME_count.
type Family struct {
	Name string
	Type string // counter, gauge, histogram, summary; empty where the target did not say
	Help string
}

// Family defines a family unless one of its name is defined already.
func (w *Writer) Family(f Family) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.families[f.Name]; ok {
		return
	}
	w.families[f.Name] = struct{}{}
	w.buf = append(w.buf, kindFamily)
	w.string(f.Name)
	w.string(f.Type)
	w.string(f.Help)
	w.flushIfFullLocked()
}

// Define defines a series that the caller knows to be new, and returns its
// number. It costs less than Series: nothing is remembered but the texts.
func (w *Writer) Define(s Series) SeriesID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.defineSeriesLocked(s)
}

// defineSeriesLocked writes each text of a series once in the stream, so that a bucket of
// a kube-apiserver's histogram takes some 25 bytes; callers hold mu.
func (w *Writer) defineSeriesLocked(s Series) SeriesID {
	id := w.nextSeries
	w.nextSeries++
	refs := append(w.refs[:0], w.textRefLocked(s.Target), w.textRefLocked(s.Name))
	for _, l := range s.Labels {
		refs = append(refs, w.textRefLocked(l.Name), w.textRefLocked(l.Value))
	}
	w.refs = refs
	w.buf = append(w.buf, kindSeriesRef)
	w.uint(uint64(len(s.Labels)))
	for _, ref := range refs {
		w.uint(ref)
	}
	w.flushIfFullLocked()
	return id
}

// textRefLocked returns the number of a text, defining it on first use; callers hold mu.
func (w *Writer) textRefLocked(s string) uint64 {
	ref, ok := w.texts[s]
	if !ok {
		ref = uint64(len(w.texts))
		w.texts[s] = ref
		w.buf = append(w.buf, kindText)
		w.string(s)
	}
	return ref
}

// Scrape appends a reading. It sorts s's slices by series and keeps none of
// them. A value takes some 3 bytes where it is a count, 9 where it is not.
func (w *Writer) Scrape(s *Scrape) {
	slices.SortFunc(s.Values, func(a, b Value) int { return int(a.Series) - int(b.Series) })
	slices.SortFunc(s.Histograms, func(a, b HistogramValue) int { return int(a.Series) - int(b.Series) })
	slices.Sort(s.Gone)
	w.mu.Lock()
	defer w.mu.Unlock()
	target := w.textRefLocked(s.Target)
	w.buf = append(w.buf, kindScrape)
	w.uint(target)
	w.writeTime(s.At)
	w.int(int64(s.Took))
	w.uint(uint64(s.Points))
	w.writeValues(s.Values)
	w.uint(uint64(len(s.Histograms)))
	var last SeriesID
	for _, h := range s.Histograms {
		w.uint(uint64(h.Series - last))
		last = h.Series
		w.writeHistogram(h)
	}
	w.uint(uint64(len(s.Gone)))
	last = 0
	for _, id := range s.Gone {
		w.uint(uint64(id - last))
		last = id
	}
	w.flushIfFullLocked()
}

// writeValues writes whole numbers as differences to the series' last one, others
// as they are.
func (w *Writer) writeValues(values []Value) {
	if n := int(w.nextSeries); len(w.wholes) < n {
		w.wholes = append(w.wholes, make([]int64, n-len(w.wholes))...)
	}
	w.uint(uint64(len(values)))
	var last SeriesID
	for _, v := range values {
		step := uint64(v.Series-last) << 1
		last = v.Series
		if !isWhole(v.Value) {
			w.uint(step | 1)
			w.buf = binary.LittleEndian.AppendUint64(w.buf, math.Float64bits(v.Value))
			continue
		}
		w.uint(step)
		w.int(int64(v.Value) - w.wholes[v.Series])
		w.wholes[v.Series] = int64(v.Value)
	}
}

// isWhole says whether an integer holds a value without loss; -0 is not one.
func isWhole(v float64) bool {
	return v == math.Trunc(v) && math.Abs(v) < 1<<53 && !(v == 0 && math.Signbit(v))
}

func (w *Writer) writeHistogram(h HistogramValue) {
	last, ok := w.histograms[h.Series]
	if !ok {
		last = &Histogram{}
		w.histograms[h.Series] = last
	}
	w.buf = AppendHistogram(w.buf, last, h.Value)
	last.copyFrom(h.Value)
}

func (c *cursor) seriesRef(s *Stream) Series {
	n := c.uint()
	if n > uint64(len(c.b)/2) { // each label takes two bytes at least
		c.failDamaged("labels")
		return Series{}
	}
	out := Series{Target: c.readTextRef(s), Name: c.readTextRef(s)}
	if n > 0 && n <= fewLabels {
		out.Labels = make([]Label, 0, n)
	}
	for i := uint64(0); i < n && c.bad == nil; i++ {
		out.Labels = append(out.Labels, Label{c.readTextRef(s), c.readTextRef(s)})
	}
	return out
}

func (c *cursor) readTextRef(s *Stream) string {
	ref := c.uint()
	if ref >= uint64(len(s.texts)) {
		c.failDamaged("undefined text")
		return ""
	}
	return s.texts[ref]
}

// visitScrape visits a scrape and then what it found, in the order of Scrape's
// fields.
func (s *Stream) visitScrape(c *cursor, v Visitor) {
	head := Scrape{Target: c.readTextRef(s), At: c.readTime(), Took: c.readDuration(), Points: int(min(c.uint(), math.MaxInt32))}
	if c.bad == nil && v.Scrape != nil {
		v.Scrape(head)
	}
	s.visitValues(c, head.At, v)
	var at uint64
	for range c.uint() {
		id, ok := s.seriesAt(c, &at)
		if !ok {
			return
		}
		h, known := s.histograms[id]
		if !known {
			h = &Histogram{}
			if s.histograms == nil {
				s.histograms = map[SeriesID]*Histogram{}
			}
			s.histograms[id] = h
			s.Spend(costHistogram)
		}
		before := len(h.Positive) + len(h.Negative)
		var err error
		if c.b, err = DecodeHistogram(c.b, h); err != nil {
			c.failWith(fmt.Errorf("damaged record: %w", err))
			return
		}
		s.Spend(costBucket * (len(h.Positive) + len(h.Negative) - before))
		if v.Histogram != nil {
			v.Histogram(HistogramSample{Series: id, At: head.At, Value: h})
		}
	}
	at = 0
	for range c.uint() {
		id, ok := s.seriesAt(c, &at)
		if !ok {
			return
		}
		s.Spend(costGone)
		if v.Gone != nil {
			v.Gone(Gone{Series: id, At: head.At})
		}
	}
}

func (s *Stream) visitValues(c *cursor, at clock.Time, v Visitor) {
	if n := len(s.Series); len(s.wholes) < n {
		s.wholes = append(s.wholes, make([]int64, n-len(s.wholes))...)
	}
	var last uint64
	for range c.uint() {
		step := c.uint()
		last += step >> 1
		if c.bad == nil && last >= uint64(len(s.Series)) {
			c.failDamaged("value of an undefined series")
		}
		if c.bad != nil {
			return
		}
		sample := Sample{Series: SeriesID(last), At: at}
		if step&1 == 1 {
			sample.Value = c.float()
		} else {
			s.wholes[last] += c.int()
			sample.Value = float64(s.wholes[last])
		}
		if c.bad == nil && v.Sample != nil {
			v.Sample(sample)
		}
	}
}

// seriesAt reads a series' number as the step from the last one.
func (s *Stream) seriesAt(c *cursor, at *uint64) (SeriesID, bool) {
	*at += c.uint()
	if c.bad == nil && *at >= uint64(len(s.Series)) {
		c.failDamaged("scrape of an undefined series")
	}
	return SeriesID(*at), c.bad == nil
}
