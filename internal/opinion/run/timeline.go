package run

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Timeline counts the load's calls over the run's clock, boot and clean-up
// included. Bin i is [i*Width, (i+1)*Width) of it.
type Timeline struct {
	Width time.Duration
	Due   []float64 // that fell due
	OK    []float64 // that were answered with success
	Bad   []float64 // that failed or were not answered
	// A call that is due and not yet answered covers some bins in part and the
	// others wholly: whole has the change of their number at each bin.
	part, whole []float64
}

// Resolution of a timeline. It becomes ten times as coarse whenever a run is
// longer than its bins, so that it needs no more than some 12 MB.
const (
	finestBin = 100 * time.Millisecond
	maxBins   = 360_000 // ten hours of the finest
	coarser   = 10
)

func newTimeline() *Timeline { return &Timeline{Width: finestBin} }

func (t *Timeline) addCall(c record.Call) {
	t.binAt(max(c.Due, c.Done)) // which may make the bins coarser
	i, j := t.binAt(c.Due), t.binAt(c.Done)
	t.Due[i]++
	if c.Outcome == record.OK {
		t.OK[j]++
	} else {
		t.Bad[j]++
	}
	if c.Done <= c.Due {
		return
	}
	from, to := t.placeOf(c.Due), t.placeOf(c.Done)
	if i == j {
		t.part[i] += to - from
		return
	}
	t.part[i] += float64(i+1) - from
	t.part[j] += to - float64(j)
	t.whole[i+1]++
	t.whole[j]--
}

// binAt returns the bin of a moment and sees to it that there is one.
func (t *Timeline) binAt(at clock.Time) int {
	at = max(at, 0)
	for int64(at)/int64(t.Width) >= maxBins {
		t.coarsenBins()
	}
	i := int(int64(at) / int64(t.Width))
	if more := i + 2 - len(t.Due); more > 0 { // one behind the last, for whole
		more = max(more, len(t.Due)/4)
		for _, v := range []*[]float64{&t.Due, &t.OK, &t.Bad, &t.part, &t.whole} {
			*v = append(*v, make([]float64, more)...)
		}
	}
	return i
}

// placeOf is where a moment lies, in bins.
func (t *Timeline) placeOf(at clock.Time) float64 { return float64(max(at, 0)) / float64(t.Width) }

func (t *Timeline) coarsenBins() {
	open := t.Open()
	for _, v := range []*[]float64{&t.Due, &t.OK, &t.Bad} {
		*v = sumBins(*v)
	}
	t.part = sumBins(open)
	for i := range t.part {
		t.part[i] /= coarser
	}
	t.whole = make([]float64, len(t.part))
	t.Width *= coarser
}

func sumBins(fine []float64) []float64 {
	out := make([]float64, (len(fine)+coarser-1)/coarser)
	for i, v := range fine {
		out[i/coarser] += v
	}
	return out
}

// Open returns how many calls were due and not yet answered, on average over
// each bin: a number taken at the bins' edges would see the same short call
// always or never.
func (t *Timeline) Open() []float64 {
	out := make([]float64, len(t.part))
	there := 0.0
	for i := range out {
		there += t.whole[i]
		out[i] = max(there+t.part[i], 0) // rounding may leave -0.0000001
	}
	return out
}

// Buckets of latency grow by the same factor: twelve a decade tell 10 ms from
// 12 ms as they tell 10 s from 12 s.
const (
	BucketsPerDecade = 12
	MinBucket        = 1e-5 // seconds; what is shorter lies in bucket 0
	Buckets          = 8*BucketsPerDecade + 1
)

// Bucket returns the bucket of a duration: bucket b > 0 holds
// [MinBucket*10^((b-1)/12), MinBucket*10^(b/12)), and the last one what is
// longer, too.
func Bucket(d time.Duration) int {
	s := d.Seconds()
	if s < MinBucket {
		return 0
	}
	return min(int(math.Floor(math.Log10(s/MinBucket)*BucketsPerDecade+1e-9))+1, Buckets-1)
}

// Heat counts the calls of one kind by the moment of their answer and the bucket
// of their latency, boot and clean-up included. Column i is
// [i*Width, (i+1)*Width) of the run's clock.
type Heat struct {
	Width   time.Duration
	Columns [][]uint32 // of Buckets each; nil where there was no call
}

// heatWidths are the widths of a heat map's columns, each of them some times the
// one before. A map has at most maxColumns of them, however long the run is.
func heatWidths() []time.Duration {
	return []time.Duration{finestBin, time.Second, 5 * time.Second, time.Minute, time.Hour, 24 * time.Hour}
}

const maxColumns = 2400

// addCall adds a call and returns how many bytes of memory that took.
func (h *Heat) addCall(at clock.Time, latency time.Duration) (taken int) {
	if h.Width == 0 {
		h.Width = finestBin
	}
	at = max(at, 0)
	for i := int64(at) / int64(h.Width); i >= maxColumns && h.coarsenColumns(); i = int64(at) / int64(h.Width) {
	}
	i := int(min(int64(at)/int64(h.Width), maxColumns-1))
	if more := i + 1 - len(h.Columns); more > 0 {
		h.Columns = append(h.Columns, make([][]uint32, more)...)
		taken = 24 * more
	}
	if h.Columns[i] == nil {
		h.Columns[i] = make([]uint32, Buckets)
		taken += 4 * Buckets
	}
	h.Columns[i][Bucket(max(latency, 0))]++
	return taken
}

// coarsenColumns makes wider columns; false where there are none.
func (h *Heat) coarsenColumns() bool {
	for _, w := range heatWidths() {
		if w > h.Width {
			h.Columns, h.Width = h.Rebin(w), w
			return true
		}
	}
	return false
}

// Rebin returns the counts in columns of a width that is some times h's own.
func (h *Heat) Rebin(width time.Duration) [][]uint32 {
	var out [][]uint32
	for i, column := range h.Columns {
		j := int(time.Duration(i) * h.Width / width)
		for len(out) <= j {
			out = append(out, nil)
		}
		if column != nil && out[j] == nil {
			out[j] = make([]uint32, Buckets)
		}
		for b, n := range column {
			out[j][b] += n
		}
	}
	return out
}
