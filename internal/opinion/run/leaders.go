package run

import (
	"cmp"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/component"
)

// LeaderSeries is 1 where a process leads and 0 where it does not. Answers like the one before and the one after are left out.
const LeaderSeries = "windtunnel_leader"

// LeaderReading tells whether one of several processes led.
type LeaderReading struct {
	At      clock.Time
	Process string
	Leads   bool
}

// Range is a time that is known to within its ends.
type Range struct{ Least, Most time.Duration }

// Leaderless is the time in which none of several processes led.
type Leaderless struct {
	Longest, Sum Range
	Count        int // of the gaps that are certain
	Readings     int
}

// Leaderless returns for how long no process of a component led during the run; without
// readings nobody asked.
func (f *Facts) Leaderless(of string) Leaderless {
	var all []LeaderReading
	for _, s := range f.Series.Named(LeaderSeries) {
		if name, _ := component.Of(s.Target); name != of {
			continue
		}
		for i := range s.Len() {
			at, v := s.Sample(i)
			all = append(all, LeaderReading{at, s.Target, v == 1})
		}
	}
	return findLeaderless(all, f.Begin, f.End)
}

// stretch is a time in which a process led.
type stretch struct{ from, to clock.Time }

// findLeaderless reads answers. A process led between two answers in a row that say so, and may
// have led until its answer before and after them.
func findLeaderless(all []LeaderReading, begin, end clock.Time) Leaderless {
	byProcess := map[string][]LeaderReading{}
	last := begin
	for _, r := range all {
		byProcess[r.Process] = append(byProcess[r.Process], r)
		last = max(last, r.At)
	}
	end = min(end, last)
	var certain, possible []stretch
	for _, own := range byProcess {
		slices.SortStableFunc(own, func(a, b LeaderReading) int { return cmp.Compare(a.At, b.At) })
		for i, r := range own {
			if !r.Leads {
				continue
			}
			sure, may := stretch{r.At, r.At}, stretch{begin, end}
			if i > 0 {
				may.from = own[i-1].At
			}
			if i+1 < len(own) {
				may.to = own[i+1].At
				if own[i+1].Leads {
					sure.to = may.to
				}
			}
			certain, possible = append(certain, sure), append(possible, may)
		}
	}
	out := Leaderless{Readings: len(all)}
	if len(all) == 0 {
		return out
	}
	for _, gap := range gapsOf(certain, begin, end) {
		took := gap.to.Sub(gap.from)
		out.Longest.Most, out.Sum.Most = max(out.Longest.Most, took), out.Sum.Most+took
	}
	for _, gap := range gapsOf(possible, begin, end) {
		took := gap.to.Sub(gap.from)
		out.Longest.Least, out.Sum.Least = max(out.Longest.Least, took), out.Sum.Least+took
		out.Count++
	}
	return out
}

// gapsOf returns what some times leave of another.
func gapsOf(all []stretch, begin, end clock.Time) (out []stretch) {
	slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	at := begin
	for _, s := range append(all, stretch{end, end}) {
		if from := min(s.from, end); from > at {
			out = append(out, stretch{at, from})
		}
		at = max(at, s.to)
	}
	return out
}
