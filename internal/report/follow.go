package report

import (
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
)

// firstHorizon is how long a run is drawn at the finest resolution while it is
// under way; whenever it has become longer than that was thought of, its
// records are read once more for twice as long.
const firstHorizon = 2 * time.Minute

// Follower makes reports of a run under way, each of what has been recorded
// until then. It reads what is new, so that a report costs no more than its
// figures do. It is for one goroutine.
type Follower struct {
	dir     record.Dir
	horizon time.Duration
	tail    *record.Tail
	tally   *tally
	survey  *surveyor
}

// Follow opens the records of dir. An error wraps record.ErrNotRecords, or
// fs.ErrNotExist, where there are none yet.
func Follow(dir record.Dir) (*Follower, error) {
	f := &Follower{dir: dir, horizon: firstHorizon}
	return f, f.open()
}

// open begins to read from the first record.
func (f *Follower) open() error {
	t := &tally{span: span{0, clock.Time(f.horizon)}}
	t.prepare()
	f.tally, f.survey = t, &surveyor{}
	tail, err := record.OpenTail(f.dir.File(record.StreamFile), func(s *record.Stream) record.Visitor {
		return f.visitor(s)
	})
	if err != nil {
		return fmt.Errorf("follow run: %w", err)
	}
	f.tail = tail
	return nil
}

// visitor surveys and counts in one pass.
func (f *Follower) visitor(s *record.Stream) record.Visitor {
	t, survey, count := f.tally, f.survey.visitor(), f.tally.visitor(s)
	return record.Visitor{
		Call:   func(c record.Call) { survey.Call(c); count.Call(c) },
		Phase:  func(p record.Phase) { survey.Phase(p); count.Phase(p) },
		Sample: func(v record.Sample) { survey.Sample(v); count.Sample(v) },
		Event: func(m record.Event) {
			survey.Event(m)
			t.steps = f.survey.steps // calls are counted into the steps that are there
			count.Event(m)
		},
		Gone: count.Gone,
	}
}

// Report reads what is new and arranges all there is. m is the manifest as it is
// now; j what is known of the objectives, which may be nothing. The report is of
// a run under way until it is told otherwise: that of the end is Build's.
func (f *Follower) Report(m record.Manifest, j slo.Judgement) (*Report, error) {
	for {
		if _, err := f.tail.Next(); err != nil {
			return nil, fmt.Errorf("follow run: %w", err)
		}
		length := f.survey.span.to.Sub(0)
		if length <= f.horizon {
			break
		}
		for f.horizon < length {
			f.horizon *= 2
		}
		if err := errors.Join(f.tail.Close(), f.open()); err != nil {
			return nil, err
		}
	}
	t := f.tally.until(f.survey)
	t.stream = f.tail.Stream()
	r, err := t.report(f.dir, m, j)
	if err != nil {
		return nil, err
	}
	r.UnderWay()
	return r, nil
}

// Close closes the records. It may be called twice.
func (f *Follower) Close() error { return f.tail.Close() }

// until is the tally cut to what the survey has seen: the rest of its grids is
// the future. It shares what is counted with the tally that goes on.
func (t *tally) until(s *surveyor) *tally {
	out, calls := *t, *t.calls
	out.calls = &calls
	out.found(*s)
	out.base.n, out.heat.n = t.base.bin(out.span.to)+1, t.heat.bin(out.span.to)+1
	n := out.base.n
	calls.due, calls.ok, calls.bad = calls.due[:n], calls.ok[:n], calls.bad[:n]
	calls.open = presence{g: out.base, part: calls.open.part[:n], whole: calls.open.whole[:n+1]}
	return &out
}
