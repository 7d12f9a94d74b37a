package run

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// Lifecycles is what was seen of the objects of one resource and group: for each
// object and phase the moment of the first receipt that showed it.
type Lifecycles struct {
	Resource, Group string
	Name            string            // which of the scenario's lifecycles; empty for the pods that every run observes
	Objects         []record.ObjectID // by row; Object returns what it is
	columns         []column
	later           []laterPhase // seen after the run's end: drawn, not judged
	all             *[]record.Object

	mu    sync.Mutex             // of parts
	parts map[string]*Lifecycles // by the cluster of their objects; nil until it is asked for, and when more was read
}

// laterPhase is a phase that was seen when the run had ended.
type laterPhase struct {
	row   int
	phase string
	at    clock.Time
}

// Object returns what the object of a row is.
func (l *Lifecycles) Object(row int) record.Object { return (*l.all)[l.Objects[row]] }

// column holds one phase's moments, by the object's row.
type column struct {
	phase  string
	at     []clock.Time            // never where the phase was not seen; may be shorter than the rows
	within map[int32]time.Duration // by row: of those not seen in time; nil without any
}

// never stands for a phase that was not seen.
const never = clock.Time(math.MinInt64)

// Always is the least of a moment that nothing bounds.
const Always = never

type groupKey struct{ name, resource, group string }

// slot says where an object's phases are kept.
type slot struct {
	of  *Lifecycles
	row int32
}

func (c *collector) addPhase(p record.Phase) {
	c.whole.Add(p.At)
	for i := len(c.assigned); i <= int(p.Object); i++ {
		c.assigned = append(c.assigned, slot{})
	}
	at := &c.assigned[p.Object]
	if c.ended { // cleaning up is not part of the run
		if at.of != nil {
			at.of.later, at.of.parts = append(at.of.later, laterPhase{int(at.row), p.Phase, p.At}), nil
		}
		return
	}
	c.noteActive(p.At)
	if at.of == nil {
		o := c.stream.Objects[p.Object]
		key := groupKey{o.Lifecycle, o.Resource, o.Group}
		l := c.groups[key]
		if l == nil {
			l = &Lifecycles{Resource: o.Resource, Group: o.Group, Name: o.Lifecycle, all: &c.stream.Objects}
			c.groups[key] = l
			if len(c.groups) > maxGroups {
				c.stream.Refuse(fmt.Errorf("it has more than %d groups of objects", maxGroups))
			}
			c.f.Lifecycles = append(c.f.Lifecycles, l)
		}
		*at = slot{l, int32(len(l.Objects))}
		l.Objects = append(l.Objects, p.Object)
	}
	c.stream.Spend(at.of.reachPhase(int(at.row), p))
	if len(at.of.columns) > maxPhases {
		c.stream.Refuse(fmt.Errorf("%s of %q have more than %d phases", at.of.Resource, at.of.Group, maxPhases))
	}
}

// Bounds of what a run has: those who read it look through all of them again and
// again.
const (
	maxPhases = 200     // of one lifecycle
	maxGroups = 5_000   // of objects
	maxOps    = 50_000  // kinds of calls
	maxSteps  = 500_000 // begun, one in a loop each time
)

// reachPhase notes a phase the first time that it is seen, and returns how many bytes of
// memory that took.
func (l *Lifecycles) reachPhase(row int, p record.Phase) (taken int) {
	l.parts = nil
	for i := range l.columns {
		if l.columns[i].phase == p.Phase {
			return l.columns[i].reachRow(row, p)
		}
	}
	l.columns = append(l.columns, column{phase: p.Phase})
	return l.columns[len(l.columns)-1].reachRow(row, p)
}

func (c *column) reachRow(row int, p record.Phase) (taken int) {
	for len(c.at) <= row {
		c.at = append(c.at, never)
		taken += 8
	}
	if c.at[row] != never {
		return taken
	}
	c.at[row] = p.At
	if p.Within > 0 {
		if c.within == nil {
			c.within = map[int32]time.Duration{}
		}
		c.within[int32(row)] = p.Within
	}
	return taken
}

// Len returns the number of objects.
func (l *Lifecycles) Len() int { return len(l.Objects) }

// At returns when an object was first seen in a phase.
func (l *Lifecycles) At(row int, phase string) (clock.Time, bool) {
	for i := range l.columns {
		if l.columns[i].phase == phase && row < len(l.columns[i].at) {
			at := l.columns[i].at[row]
			return at, at != never
		}
	}
	return 0, false
}

// Reached returns how many objects were seen in a phase.
func (l *Lifecycles) Reached(phase string) (n int) {
	for row := range len(l.Objects) {
		if _, ok := l.At(row, phase); ok {
			n++
		}
	}
	return n
}

// Span returns the first and the last moment of a phase.
func (l *Lifecycles) Span(phase string) (s Span) {
	for row := range len(l.Objects) {
		if at, ok := l.At(row, phase); ok {
			s.Add(at)
		}
	}
	return s
}

// BoundedTime is when an object reached a phase: between two times, which are one
// where its watch showed it in time. The first is Always where nothing bounds it.
type BoundedTime struct{ First, Last clock.Time }

// PhaseTime returns when an object reached a phase.
func (l *Lifecycles) PhaseTime(row int, phase string) (BoundedTime, bool) {
	gap, within, inGap := l.firstSeen(row, record.PhaseUnknown)
	at, before, ok := l.firstSeen(row, phase)
	switch {
	case ok && before > 0:
		return BoundedTime{earliestTime(at, before), at}, true
	case ok && inGap && within == 0 && gap <= at: // a stream of an older version
		return BoundedTime{l.knownBefore(row, gap), at}, true
	case ok:
		return BoundedTime{at, at}, true
	case inGap && phase == record.PhaseCreated && within > 0:
		return BoundedTime{earliestTime(gap, within), gap}, true
	}
	return BoundedTime{}, false
}

// mayBeOverlooked tells whether a pod may have reached phases that nobody saw: it
// was deleted while its watch was interrupted, or nothing is known of when it was interrupted.
func (l *Lifecycles) mayBeOverlooked(row int) bool {
	_, within, inGap := l.firstSeen(row, record.PhaseUnknown)
	_, before, deleted := l.firstSeen(row, record.PhaseDeleted)
	return inGap && within == 0 || deleted && before > 0
}

// firstSeen returns when an object was first seen in a phase, and how long before
// it may have reached it.
func (l *Lifecycles) firstSeen(row int, phase string) (clock.Time, time.Duration, bool) {
	for i := range l.columns {
		if c := &l.columns[i]; c.phase == phase && row < len(c.at) && c.at[row] != never {
			return c.at[row], c.within[int32(row)], true
		}
	}
	return 0, 0, false
}

func earliestTime(at clock.Time, within time.Duration) clock.Time {
	if within == record.Ever {
		return Always
	}
	return at.Add(-within)
}

// Durations adds the time from one phase to another of each object to d. An
// object that was not seen to reach the second phase took at least until it
// was deleted, or until the run ended (a pod that never runs has no startup
// time, and is not left out either). One that changed while its watch was interrupted
// or held up took some time between what is known for certain. Pods of before
// the run's begin are not part of it; of declared lives those are not that were
// there before anybody looked.
func (l *Lifecycles) Durations(d *stats.Durations, from, to string, f *Facts) {
	for row := range len(l.Objects) {
		begin, known := l.PhaseTime(row, from)
		switch {
		case l.isOlder(row, begin, known, f), !known && !l.mayBeOverlooked(row):
			continue
		case !known:
			d.AddBetween(0, stats.Forever)
			continue
		}
		end, reached := l.PhaseTime(row, to)
		if !reached {
			d.AddBetween(max(0, l.lastSeen(row, from, f).Sub(begin.Last)), stats.Forever)
			continue
		}
		least, most := time.Duration(0), stats.Forever
		if end.First != Always {
			least = max(0, end.First.Sub(begin.Last))
		}
		if begin.First != Always {
			most = max(0, end.Last.Sub(begin.First))
		}
		if least == most {
			d.Add(least)
		} else {
			d.AddBetween(least, most)
		}
	}
}

// isOlder tells whether an object is from before the time that is judged.
func (l *Lifecycles) isOlder(row int, begin BoundedTime, known bool, f *Facts) bool {
	if l.Name != "" {
		return known && begin.First == Always
	}
	if known && begin.First == Always && !f.Began() { // others' pods, in a run that was over before it began
		return true
	}
	gap, inGap := l.At(row, record.PhaseUnknown)
	return known && begin.Last < f.Begin || inGap && gap < f.Begin
}

// lastSeen is until when an object that did not go on from a phase could have
// done so.
func (l *Lifecycles) lastSeen(row int, from string, f *Facts) clock.Time {
	end := f.End
	for _, phase := range []string{record.PhaseDeleting, record.PhaseDeleted} {
		if at, within, ok := l.firstSeen(row, phase); ok && phase != from && within != record.Ever {
			end = min(end, at.Add(-within))
		}
	}
	return end
}

// knownBefore is the last moment before an interrupted watch at which the object is known
// to have been as it was.
func (l *Lifecycles) knownBefore(row int, interrupted clock.Time) clock.Time {
	last := Always
	for i := range l.columns {
		if at, ok := l.At(row, l.columns[i].phase); ok && at < interrupted {
			last = max(last, at)
		}
	}
	return last
}

// Pods returns the lives of pods whose group is among groups, or of all named
// groups when there are none.
func (f *Facts) Pods(groups []string) []*Lifecycles {
	var out []*Lifecycles
	for _, l := range f.Lifecycles {
		if l.Resource == "pods" && l.Name == "" && (len(groups) == 0 && l.Group != "" || slices.Contains(groups, l.Group)) {
			out = append(out, l)
		}
	}
	return out
}

// OfResource returns the lifecycles of a resource's objects, whatever their names.
func (f *Facts) OfResource(resource string) []*Lifecycles {
	return slices.DeleteFunc(slices.Clone(f.Lifecycles), func(l *Lifecycles) bool { return l.Resource != resource })
}

// Named returns the lifecycles of one name, of all groups or of some. The name
// pod stands for the pods that every run observes.
func (f *Facts) Named(name string, groups ...string) []*Lifecycles {
	if name == scenario.PodLifecycle {
		return f.Pods(groups)
	}
	var out []*Lifecycles
	for _, l := range f.Lifecycles {
		if l.Name == name && (len(groups) == 0 || slices.Contains(groups, l.Group)) {
			out = append(out, l)
		}
	}
	return out
}

// Took returns how long the objects of some lifecycles took from one phase to
// another, as Durations defines it.
func (f *Facts) Took(all []*Lifecycles, from, to string) *stats.Durations {
	d := &stats.Durations{}
	for _, l := range all {
		l.Durations(d, from, to, f)
	}
	return d
}

// Clusters returns the clusters that the objects of some lifecycles are in, sorted;
// the plane is the empty one.
func Clusters(all []*Lifecycles) []string {
	found := map[string]bool{}
	for _, l := range all {
		for name := range l.byCluster() {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// In returns the part of some lifecycles whose objects are in one cluster: a member,
// or the plane, which is the empty name.
func In(all []*Lifecycles, cluster string) []*Lifecycles {
	var out []*Lifecycles
	for _, l := range all {
		if part := l.byCluster()[cluster]; part != nil {
			out = append(out, part)
		}
	}
	return out
}

// byCluster returns the objects of each cluster. Most lifecycles are of one cluster
// and are their own part.
func (l *Lifecycles) byCluster() map[string]*Lifecycles {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts == nil {
		l.parts = l.splitByCluster()
	}
	return l.parts
}

func (l *Lifecycles) splitByCluster() map[string]*Lifecycles {
	out := map[string]*Lifecycles{}
	if len(l.Objects) == 0 {
		return out
	}
	first := l.Object(0).Cluster
	if !slices.ContainsFunc(l.Objects, func(id record.ObjectID) bool { return (*l.all)[id].Cluster != first }) {
		out[first] = l
		return out
	}
	rows := map[string][]int{}
	for row := range l.Objects {
		name := l.Object(row).Cluster
		rows[name] = append(rows[name], row)
	}
	for name, own := range rows {
		part := &Lifecycles{Resource: l.Resource, Group: l.Group, Name: l.Name, all: l.all}
		places := make(map[int]int, len(own))
		for _, row := range own {
			places[row] = len(part.Objects)
			part.Objects = append(part.Objects, l.Objects[row])
		}
		for i := range l.columns {
			part.columns = append(part.columns, l.columns[i].of(own))
		}
		for _, p := range l.later {
			if row, ok := places[p.row]; ok {
				part.later = append(part.later, laterPhase{row, p.phase, p.at})
			}
		}
		out[name] = part
	}
	return out
}

// of returns the column of some rows.
func (c *column) of(rows []int) column {
	out := column{phase: c.phase, at: make([]clock.Time, len(rows))}
	for i, row := range rows {
		out.at[i] = never
		if row < len(c.at) {
			out.at[i] = c.at[row]
		}
		if within := c.within[int32(row)]; within > 0 {
			if out.within == nil {
				out.within = map[int32]time.Duration{}
			}
			out.within[int32(i)] = within
		}
	}
	return out
}

// Phases returns the phases that were seen, in the order in which they first
// were.
func (l *Lifecycles) Phases() []string {
	var out []string
	for i := range l.columns {
		out = append(out, l.columns[i].phase)
	}
	return out
}

// Drawn yields the rows that were seen in a phase with the moment of the first
// receipt, what was seen after the run's end included.
func (l *Lifecycles) Drawn(phase string, yield func(row int, at clock.Time)) {
	for row := range l.Len() {
		if at, ok := l.At(row, phase); ok {
			yield(row, at)
		}
	}
	for _, p := range l.later {
		if p.phase != phase {
			continue
		}
		if _, ok := l.At(p.row, phase); !ok {
			yield(p.row, p.at)
		}
	}
}

// PodGroups returns the names of the groups whose pods were seen, sorted.
func (f *Facts) PodGroups() []string {
	var out []string
	for _, l := range f.Pods(nil) {
		out = append(out, l.Group)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
