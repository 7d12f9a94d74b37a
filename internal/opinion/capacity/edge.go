package capacity

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
)

// tally counts the verdicts of the runs of one point.
type tally struct{ passed, failed, unknown int }

func (t *tally) countVerdict(v slo.Verdict) {
	switch v {
	case slo.Pass:
		t.passed++
	case slo.Fail:
		t.failed++
	default:
		t.unknown++
	}
}

func (t tally) decided() int { return t.passed + t.failed }
func (t tally) total() int   { return t.decided() + t.unknown }

// standing is what a tally says so far.
type standing int

const (
	unflown standing = iota
	open             // flown, and not decided: once more
	passes
	fails
	inconclusive // the runs cannot tell
)

// majorityVerdict goes by the majority of the runs that were decided. Where there is
// none the point is flown again; after as many unknown runs as there would be
// repeats, and one more, it is believed that no run can tell.
func (t tally) majorityVerdict(repeats int) standing {
	switch {
	case t.total() == 0:
		return unflown
	case t.passed > t.failed:
		return passes
	case t.failed > t.passed:
		return fails
	case t.unknown > repeats, t.total() > 3*repeats+2:
		return inconclusive
	}
	return open
}

// isSure says that a point has had its repeats, or as many tries.
func (t tally) isSure(repeats int) bool {
	return t.decided() >= repeats || t.total() > 2*repeats || t.majorityVerdict(repeats) == inconclusive
}

// line is a row of points along one axis: the higher the load, the less likely
// that it passes.
type line struct {
	values  []float64
	tallies []tally
	repeats int
	floor   int   // this one passes, as others have shown; -1: none is known to
	limit   int   // this one does not, as others have shown; len(values): none is known
	hint    int   // where to begin
	reach   int   // to be flown before the edge is looked for; -1: none
	repeat  []int // to be repeated in place of both sides of the edge; nil: those
}

// edge is where passing ends: lo passes and hi does not. lo is -1 where nothing
// passes, hi len(values) where everything does.
type edge struct{ lo, hi int }

// findEdge returns the edge as the runs have it. What does not pass at the lowest
// load counts: a higher one that passes is then an exception.
func (l line) findEdge() edge {
	e := edge{lo: l.floor, hi: l.limit}
	for i := range l.limit {
		if s := l.tallies[i].majorityVerdict(l.repeats); s == fails || s == inconclusive {
			e.hi = i
			break
		}
	}
	e.lo = min(e.lo, e.hi-1)
	for i := e.hi - 1; i > e.lo; i-- {
		if l.tallies[i].majorityVerdict(l.repeats) == passes {
			e.lo = i
		}
	}
	return e
}

// nextValue returns which value to fly, and why; -1 when the edge is found.
func (l line) nextValue() (int, string) {
	if i := slices.IndexFunc(l.tallies, func(t tally) bool { return t.majorityVerdict(l.repeats) == open }); i >= 0 {
		return i, "not decided"
	}
	if l.reach >= 0 {
		return l.reach, "whether more asked brings more"
	}
	e := l.findEdge()
	switch {
	case e.hi-e.lo == 1:
		return l.repeatEdge(e)
	case e.hi < len(l.values) && (e.lo >= 0 || e.hi < l.limit):
		return (e.lo + e.hi) / 2, "halving" // of -1 and 1 it is 0
	case e.lo < 0:
		return min(l.hint, e.hi-1), "the first"
	}
	return l.doubleLoad(e), "reaching out"
}

// repeatEdge repeats the runs of both sides of the edge that were flown at all:
// what others have shown is as sure as those.
func (l line) repeatEdge(e edge) (int, string) {
	at, why := []int{e.lo, e.hi}, "repeating at the edge"
	if l.repeat != nil {
		at, why = l.repeat, "repeating where most is achieved"
	}
	for _, i := range at {
		if i >= 0 && i < len(l.values) && l.tallies[i].total() > 0 && !l.tallies[i].isSure(l.repeats) {
			return i, why
		}
	}
	return -1, ""
}

// doubleLoad doubles the load, or the distance from the begin where that is 0.
func (l line) doubleLoad(e edge) int {
	want := 2 * l.values[e.lo]
	if want == 0 {
		want = l.values[1]
	}
	for i := e.lo + 1; i < e.hi; i++ {
		if l.values[i] >= want {
			return i
		}
	}
	return e.hi - 1
}
