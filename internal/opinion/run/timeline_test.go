package run

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/stats"
)

func at(s float64) clock.Time { return clock.Time(s * float64(time.Second)) }

func TestOpenIsAnAverage(t *testing.T) {
	line := &Timeline{Width: time.Second}
	for _, c := range [][2]float64{
		{0.25, 0.75}, // half of the first second
		{0.5, 3.25},  // half of it, two whole ones, a quarter
		{2, 2},       // nothing
	} {
		line.addCall(record.Call{Due: at(c[0]), Done: at(c[1])})
	}
	for i, want := range []float64{1, 1, 1, 0.25, 0} {
		if v := line.Open()[i]; math.Abs(v-want) > 1e-9 {
			t.Errorf("second %d: %v, want %v", i, v, want)
		}
	}
	if !slices.Equal(line.Due[:4], []float64{2, 0, 1, 0}) || !slices.Equal(line.OK[:4], []float64{1, 0, 1, 1}) {
		t.Errorf("due %v, ok %v", line.Due, line.OK)
	}
}

// However long a run is, its bins are no more than they may be, and nothing that
// was counted is lost.
func TestTimelinesBecomeCoarser(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	line, heat := newTimeline(), &Heat{}
	const calls = 10_000
	open := 0.0
	for i := range calls {
		due := at(float64(i) * 40) // four days and a half in all
		done := due.Add(time.Duration(rng.ExpFloat64() * 20 * float64(time.Second)))
		open += done.Sub(due).Seconds()
		line.addCall(record.Call{Due: due, Done: done})
		heat.addCall(done, done.Sub(due))
	}
	due, there, hot := 0.0, 0.0, 0
	for i, v := range line.Open() {
		due += line.Due[i]
		there += v * line.Width.Seconds()
	}
	for _, column := range heat.Columns {
		for _, n := range column {
			hot += int(n)
		}
	}
	if line.Width != coarser*coarser*finestBin || len(line.Due) > maxBins+maxBins/4+2 || len(heat.Columns) > maxColumns {
		t.Errorf("%d bins of %v, %d columns of %v", len(line.Due), line.Width, len(heat.Columns), heat.Width)
	}
	if due != calls || hot != calls || math.Abs(there-open) > 1e-6*open {
		t.Errorf("%v due, %d in the heat map, %v s open, want %d, %d, %v", due, hot, there, calls, calls, open)
	}
}

func TestBucketsHoldWhatTheySay(t *testing.T) {
	for _, d := range []time.Duration{0, 5 * time.Microsecond, 10 * time.Microsecond, time.Millisecond, 3 * time.Second, 700 * time.Second} {
		b := Bucket(d)
		from, to := 0.0, MinBucket*math.Pow(10, float64(b)/BucketsPerDecade)
		if b > 0 {
			from = MinBucket * math.Pow(10, float64(b-1)/BucketsPerDecade)
		}
		if s := d.Seconds(); s < from*(1-1e-9) || s >= to*(1+1e-9) {
			t.Errorf("%v lies in bucket %d, which is from %v to %v s", d, b, from, to)
		}
	}
	if Bucket(time.Hour*1e4) != Buckets-1 {
		t.Error("an endless duration is not in the last bucket")
	}
}

// Pods that were there before anybody looked are not part of a run that never began.
func TestPodsOfOthersBeforeTheBegin(t *testing.T) {
	for began, want := range map[bool]int{false: 0, true: 1} {
		path := filepath.Join(t.TempDir(), record.StreamFile)
		w := repotest.Must(record.Create(path))(t)
		if began {
			w.Event(record.Event{At: at(0.5), Type: record.EventRunBegan})
		}
		id := w.Object(record.Object{Resource: "pods", Namespace: "others", Name: "p", UID: "1"})
		w.Phase(record.Phase{Object: id, Phase: record.PhaseUnknown, At: at(1), Within: record.Ever})
		w.Phase(record.Phase{Object: id, Phase: record.PhaseBound, At: at(1), Within: record.Ever})
		w.Event(record.Event{At: at(2), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Interrupted}})
		repotest.NoError(t, w.Close())
		f := repotest.Must(Collect(path, record.Manifest{}))(t)
		d := &stats.Durations{}
		for _, l := range f.OfResource("pods") {
			l.Durations(d, record.PhaseCreated, record.PhaseRunning, f)
		}
		if d.Len() != want {
			t.Errorf("run began %v: %d durations, want %d", began, d.Len(), want)
		}
	}
}
