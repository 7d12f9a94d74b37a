package slo

import (
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Lives is what was seen of the objects of one resource and group: for each
// object and phase the moment of the first receipt that showed it.
type Lives struct {
	Resource, Group string
	Life            string // which of the scenario's lives; empty for the pods that every run observes
	n               int
	columns         []column
}

// column holds one phase's moments, by the object's row.
type column struct {
	phase  string
	at     []clock.Time            // never where the phase was not seen; may be shorter than the rows
	within map[int32]time.Duration // by row: of those not seen in time; nil without any
}

// never stands for a phase that was not seen.
const never = clock.Time(math.MinInt64)

// always is the least of a moment that nothing bounds.
const always = never

type groupKey struct{ life, resource, group string }

// place says where an object's phases are kept.
type place struct {
	lives *Lives
	row   int32
}

func (c *collector) phase(p record.Phase) {
	if c.ended {
		return // cleaning up is not part of the run
	}
	c.whole.add(p.At)
	for i := len(c.assigned); i <= int(p.Object); i++ {
		c.assigned = append(c.assigned, place{})
	}
	at := &c.assigned[p.Object]
	if at.lives == nil {
		o := c.stream.Objects[p.Object]
		key := groupKey{o.Life, o.Resource, o.Group}
		lives := c.groups[key]
		if lives == nil {
			lives = &Lives{Resource: o.Resource, Group: o.Group, Life: o.Life}
			c.groups[key] = lives
			c.f.Lives = append(c.f.Lives, lives)
		}
		*at = place{lives, int32(lives.n)}
		lives.n++
	}
	at.lives.reach(int(at.row), p)
}

// reach notes a phase the first time that it is seen.
func (l *Lives) reach(row int, p record.Phase) {
	for i := range l.columns {
		if l.columns[i].phase == p.Phase {
			l.columns[i].reach(row, p)
			return
		}
	}
	l.columns = append(l.columns, column{phase: p.Phase})
	l.columns[len(l.columns)-1].reach(row, p)
}

func (c *column) reach(row int, p record.Phase) {
	for len(c.at) <= row {
		c.at = append(c.at, never)
	}
	if c.at[row] != never {
		return
	}
	c.at[row] = p.At
	if p.Within > 0 {
		if c.within == nil {
			c.within = map[int32]time.Duration{}
		}
		c.within[int32(row)] = p.Within
	}
}

// Len returns the number of objects.
func (l *Lives) Len() int { return l.n }

// At returns when an object was first seen in a phase.
func (l *Lives) At(row int, phase string) (clock.Time, bool) {
	for i := range l.columns {
		if l.columns[i].phase == phase && row < len(l.columns[i].at) {
			at := l.columns[i].at[row]
			return at, at != never
		}
	}
	return 0, false
}

// Reached returns how many objects were seen in a phase.
func (l *Lives) Reached(phase string) (n int) {
	for row := range l.n {
		if _, ok := l.At(row, phase); ok {
			n++
		}
	}
	return n
}

// span returns the first and the last moment of a phase.
func (l *Lives) span(phase string) (s span) {
	for row := range l.n {
		if at, ok := l.At(row, phase); ok {
			s.add(at)
		}
	}
	return s
}

// moment is when an object reached a phase: between two times, which are one
// where its watch showed it in time. The first is always where nothing bounds it.
type moment struct{ first, last clock.Time }

// moment returns when an object reached a phase.
func (l *Lives) moment(row int, phase string) (moment, bool) {
	torn, within, isTorn := l.seen(row, record.PhaseUnknown)
	at, before, ok := l.seen(row, phase)
	switch {
	case ok && before > 0:
		return moment{earlier(at, before), at}, true
	case ok && isTorn && within == 0 && torn <= at: // a stream of an older version
		return moment{l.before(row, torn), at}, true
	case ok:
		return moment{at, at}, true
	case isTorn && phase == record.PhaseCreated && within > 0:
		return moment{earlier(torn, within), torn}, true
	}
	return moment{}, false
}

// overlooked tells whether a pod may have reached phases that nobody saw: it
// was deleted while its watch was torn, or nothing is known of when it was torn.
func (l *Lives) overlooked(row int) bool {
	_, within, isTorn := l.seen(row, record.PhaseUnknown)
	_, vague, gone := l.seen(row, record.PhaseDeleted)
	return isTorn && within == 0 || gone && vague > 0
}

// seen returns when an object was first seen in a phase, and how long before
// it may have reached it.
func (l *Lives) seen(row int, phase string) (clock.Time, time.Duration, bool) {
	for i := range l.columns {
		if c := &l.columns[i]; c.phase == phase && row < len(c.at) && c.at[row] != never {
			return c.at[row], c.within[int32(row)], true
		}
	}
	return 0, 0, false
}

func earlier(at clock.Time, within time.Duration) clock.Time {
	if within == record.Ever {
		return always
	}
	return at.Add(-within)
}

// durations adds the time from one phase to another of each object to d. An
// object that was not seen to reach the second phase took at least until it
// was deleted, or until the run ended (a pod that never runs has no startup
// time, and is not left out either). One that changed while its watch was torn
// or held up took some time between what is known for certain. Pods of before
// the run's begin are not part of it; of declared lives those are not that were
// there before anybody looked.
func (l *Lives) durations(d *stats.Durations, from, to string, f *Facts) {
	for row := range l.n {
		begin, known := l.moment(row, from)
		switch {
		case l.older(row, begin, known, f), !known && !l.overlooked(row):
			continue
		case !known:
			d.AddBetween(0, stats.Forever)
			continue
		}
		end, reached := l.moment(row, to)
		if !reached {
			d.AddBetween(max(0, l.lastSeen(row, from, f).Sub(begin.last)), stats.Forever)
			continue
		}
		least, most := time.Duration(0), stats.Forever
		if end.first != always {
			least = max(0, end.first.Sub(begin.last))
		}
		if begin.first != always {
			most = max(0, end.last.Sub(begin.first))
		}
		if least == most {
			d.Add(least)
		} else {
			d.AddBetween(least, most)
		}
	}
}

// older tells whether an object is from before the time that is judged.
func (l *Lives) older(row int, begin moment, known bool, f *Facts) bool {
	if l.Life != "" {
		return known && begin.first == always
	}
	torn, isTorn := l.At(row, record.PhaseUnknown)
	return known && begin.last < f.Begin || isTorn && torn < f.Begin
}

// lastSeen is until when an object that did not go on from a phase could have
// done so.
func (l *Lives) lastSeen(row int, from string, f *Facts) clock.Time {
	end := f.End
	for _, phase := range []string{record.PhaseDeleting, record.PhaseDeleted} {
		if at, within, ok := l.seen(row, phase); ok && phase != from && within != record.Ever {
			end = min(end, at.Add(-within))
		}
	}
	return end
}

// before is the last moment before a torn watch at which the object is known
// to have been as it was.
func (l *Lives) before(row int, torn clock.Time) clock.Time {
	last := always
	for i := range l.columns {
		if at, ok := l.At(row, l.columns[i].phase); ok && at < torn {
			last = max(last, at)
		}
	}
	return last
}

// pods returns the lives of pods whose group is among groups, or of all named
// groups when there are none.
func (f *Facts) pods(groups []string) []*Lives {
	var out []*Lives
	for _, l := range f.Lives {
		if l.Resource == "pods" && l.Life == "" && (len(groups) == 0 && l.Group != "" || slices.Contains(groups, l.Group)) {
			out = append(out, l)
		}
	}
	return out
}
