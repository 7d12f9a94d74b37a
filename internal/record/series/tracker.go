package series

import (
	"errors"
	"fmt"
	"math"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Tracker reads the expositions of one target one after another and tells
// which points changed. What stands in an exposition as it stood in the one
// before is told by comparing bytes: reading a kube-apiserver's metrics again
// costs a comparison of each line or message, and a look at the numbers of
// those that differ. One goroutine uses it.
type Tracker struct {
	accept    func(name string) bool
	read      bool // once at least
	format    Format
	resend    bool // the last reading failed halfway: every value counts as changed
	maxPoints int  // points that the target may serve in all
	over      bool // there were more
	now       uint32

	values []float64 // by index
	fresh  []Point   // with the highest indexes, not yet told
	meta   []record.Family

	text  textState
	proto protoState
}

// Delta is what a reading found changed. Points are known by their indexes:
// 0 for the first that a tracker ever saw, and so on. It can be used again.
type Delta struct {
	Points     int             // in the exposition, of those accepted
	New        []Point         // never seen before; their indexes follow those known so far
	Families   []record.Family // never seen before
	Changed    []Change        // including the new ones
	Histograms []HistogramChange
	Gone       []int // seen the time before and not now; they may come back
}

// Change is the new value of a point.
type Change struct {
	Index int
	Value float64
}

// HistogramChange is the new value of a native histogram. Value is valid until
// the next reading.
type HistogramChange struct {
	Index int
	Value *record.Histogram
}

func (d *Delta) reset() {
	*d = Delta{New: d.New[:0], Families: d.Families[:0], Changed: d.Changed[:0], Histograms: d.Histograms[:0], Gone: d.Gone[:0]}
}

// NewTracker returns a tracker of the points whose name accept holds for; nil
// accepts all. Names are those of points: NAME_bucket, not NAME.
func NewTracker(accept func(name string) bool) *Tracker {
	if accept == nil {
		accept = func(string) bool { return true }
	}
	return &Tracker{accept: accept, maxPoints: MaxPoints, text: newTextState(), proto: newProtoState()}
}

// Update reads an exposition and says in d what changed. It keeps body until
// the next reading, so that the caller needs two buffers. An error says where
// the exposition is at fault; nothing is then told, and all of it at the next
// reading that succeeds.
func (t *Tracker) Update(format Format, body []byte, d *Delta) error {
	d.reset()
	if t.read && format != t.format {
		return fmt.Errorf("read metrics: the target answers in another format than before: %w", ErrFormat)
	}
	t.read, t.format = true, format
	t.now++
	update := t.updateText
	if format == Protobuf {
		update = t.updateProto
	}
	err := update(body, d)
	if err == nil && t.over {
		err = ErrTooMany
	}
	if err != nil {
		d.reset()
		t.resend = true
		return err
	}
	t.resend = false
	d.New, t.fresh = append(d.New, t.fresh...), nil
	d.Families, t.meta = append(d.Families, t.meta...), nil
	return nil
}

// Limit sets how many points the target may serve in all, in place of MaxPoints.
func (t *Tracker) Limit(maxPoints int) { t.maxPoints = maxPoints }

// MaxPoints is how many points a target may serve in all: some times what a
// kube-apiserver with a thousand resources has. A target with a label for each request
// has any number, and must not take the instrument's memory.
const MaxPoints = 300_000

// ErrTooMany says that a target has served more points than it may. It can be read no more.
var ErrTooMany = errors.New("it has served too many series")

// addPoint gives a new point its index.
func (t *Tracker) addPoint(p Point) int {
	t.over = t.over || len(t.values) >= t.maxPoints
	t.fresh = append(t.fresh, p)
	t.values = append(t.values, math.NaN())
	return len(t.values) - 1
}

// setValue takes a point's value.
func (t *Tracker) setValue(i int, v float64, always bool, d *Delta) {
	if always || t.resend || !sameValue(t.values[i], v) {
		t.values[i] = v
		d.Changed = append(d.Changed, Change{i, v})
	}
}

// sameValue compares values; a NaN (a quantile of an empty summary) is its like.
func sameValue(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

// pointNames are the names of the points that a family may have.
func pointNames(family string) []string {
	return []string{family, family + "_bucket", family + "_sum", family + "_count"}
}
