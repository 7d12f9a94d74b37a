package slo

import (
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/clock"
	"github.com/windtunnel/windtunnel/record"
	"github.com/windtunnel/windtunnel/stats"
)

// Lives is what was seen of the objects of one resource and group: for each
// object and phase the moment of the first receipt that showed it.
type Lives struct {
	Resource, Group string
	n               int
	columns         []column
}

// column holds one phase's moments, by the object's row.
type column struct {
	phase string
	at    []clock.Time // never where the phase was not seen; may be shorter than the rows
}

// never stands for a phase that was not seen.
const never = clock.Time(math.MinInt64)

type groupKey struct{ resource, group string }

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
		key := groupKey{o.Resource, o.Group}
		lives := c.groups[key]
		if lives == nil {
			lives = &Lives{Resource: o.Resource, Group: o.Group}
			c.groups[key] = lives
			c.f.Lives = append(c.f.Lives, lives)
		}
		*at = place{lives, int32(lives.n)}
		lives.n++
	}
	at.lives.reach(int(at.row), p.Phase, p.At)
}

// reach notes a phase the first time that it is seen.
func (l *Lives) reach(row int, phase string, at clock.Time) {
	for i := range l.columns {
		if l.columns[i].phase == phase {
			l.columns[i].reach(row, at)
			return
		}
	}
	l.columns = append(l.columns, column{phase: phase})
	l.columns[len(l.columns)-1].reach(row, at)
}

func (c *column) reach(row int, at clock.Time) {
	for len(c.at) <= row {
		c.at = append(c.at, never)
	}
	if c.at[row] == never {
		c.at[row] = at
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

// durations adds the time from one phase to another of each object to d. An
// object that was not seen to reach the second phase took at least until it
// was deleted, or until the run ended (a pod that never runs has no startup
// time, and is not left out either). One that changed while the watch was torn
// took some time between what is known for certain. Objects of before the
// run's begin are not part of it.
func (l *Lives) durations(d *stats.Durations, from, to string, f *Facts) {
	for row := range l.n {
		torn, isTorn := l.At(row, record.PhaseUnknown)
		begin, known := l.At(row, from)
		switch {
		case isTorn && torn < f.Begin, known && begin < f.Begin:
			continue // it was there before
		case !known && !isTorn:
			continue // it did not get as far as the first phase
		case !known || isTorn && torn <= begin:
			d.AddBetween(0, stats.Forever) // seen too late to know its begin
			continue
		}
		end, reached := l.At(row, to)
		switch {
		case !reached:
			d.AddBetween(max(0, l.lastSeen(row, from, f).Sub(begin)), stats.Forever)
		case isTorn && torn <= end:
			d.AddBetween(max(0, l.before(row, torn, begin).Sub(begin)), end.Sub(begin))
		default:
			d.Add(end.Sub(begin))
		}
	}
}

// lastSeen is until when an object that did not go on from a phase could have
// done so.
func (l *Lives) lastSeen(row int, from string, f *Facts) clock.Time {
	end := f.End
	for _, phase := range []string{record.PhaseDeleting, record.PhaseDeleted} {
		if at, ok := l.At(row, phase); ok && phase != from {
			end = min(end, at)
		}
	}
	return end
}

// before is the last moment before a torn watch at which the object is known
// to have been as it was.
func (l *Lives) before(row int, torn, begin clock.Time) clock.Time {
	last := begin
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
		if l.Resource == "pods" && (len(groups) == 0 && l.Group != "" || slices.Contains(groups, l.Group)) {
			out = append(out, l)
		}
	}
	return out
}
