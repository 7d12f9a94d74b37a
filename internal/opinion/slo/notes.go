package slo

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// longStall is for how many seconds the disk may keep the records waiting before that
// is said: the lateness that a single call may have.
const longStall = 0.1

// namedMeasures is how many measures without a value are named.
const namedMeasures = 5

// listNotes returns sentences that a reader should know beside the verdict, whatever
// it is: what went wrong without spoiling it.
func listNotes(f *run.Facts, results []Result, unanswered []string) []string {
	out := slices.Concat(dirtyNotes(f), closedNotes(f))
	if !slices.ContainsFunc(results, func(r Result) bool { return r.SLI == FailedCalls && r.Verdict != Pass }) {
		out = append(out, callNotes(f)...)
	}
	for _, what := range slices.Sorted(maps.Keys(f.Unknown)) {
		out = append(out, fmt.Sprintf("Skipped %s of type %q, which a later version wrote (records of format %d).", unit.Count(f.Unknown[what], "events"), what, f.Format))
	}
	if n := len(f.EventsOf(record.EventWatchGap)); n > 0 {
		out = append(out, fmt.Sprintf("windtunnel's own watch was interrupted %s; what happened meanwhile counts as known only within bounds.", timesText(n)))
	}
	for _, target := range slices.Sorted(maps.Keys(f.NotScraped)) {
		out = append(out, fmt.Sprintf("The metrics of %s could not be read %s.", target, timesText(f.NotScraped[target])))
	}
	for _, target := range slices.Sorted(maps.Keys(f.Cut)) {
		out = append(out, fmt.Sprintf("Of the metrics of %s not all were read: %s.", target, cutOff(target, f.Cut[target])))
	}
	out = append(out, balancerNotes(f)...)
	if v := f.Stalled(); v > longStall {
		out = append(out, fmt.Sprintf("windtunnel waited %.1f s for the disk that its records go to: what was late meanwhile was late for that.", v))
	}
	if n := len(unanswered); n > 0 {
		named := strings.Join(unanswered[:min(n, namedMeasures)], "; ")
		if n > namedMeasures {
			named += fmt.Sprintf("; and %d more", n-namedMeasures)
		}
		out = append(out, "Without a value, because their queries had no answer: "+named+".")
	}
	if n := (server{f}).countRestarts(); n > 0 {
		out = append(out, fmt.Sprintf("%s was started anew %s during the run; what it had counted since its last scrape before is lost.", apiServer, timesText(n)))
	}
	return out
}

// balancerNotes say for how long the balancer had no server that was ready.
func balancerNotes(f *run.Facts) []string {
	var total time.Duration
	var first, since clock.Time
	n, open := 0, false
	for _, e := range f.Events {
		switch {
		case e.Type == record.EventNoServer && !open:
			if since, open = e.At, true; n == 0 {
				first = e.At
			}
			n++
		case e.Type == record.EventServerReady && open:
			total, open = total+e.At.Sub(since), false
		}
	}
	if open {
		total += f.End.Sub(since)
	}
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("The balancer found no API server ready %s, from %.1f s on, for %.1f s in all: it refused new connections, and calls on connections that existed had no answer, or ended when their server did.",
		timesText(n), first.Seconds(), total.Seconds())}
}

// callNotes count the calls of the load that did not end well and spoil nothing:
// they were expected, or sent again.
func callNotes(f *run.Facts) (out []string) {
	var failed, silent, total int
	for _, c := range f.Calls {
		if c.Source == run.Load {
			total += c.Count()
			failed += c.Outcomes[record.Failed]
			silent += c.Outcomes[record.Unknown]
		}
	}
	if failed > 0 {
		out = append(out, fmt.Sprintf("%d of the load's %s failed.", failed, unit.Count(total, "calls")))
	}
	if silent > 0 {
		out = append(out, fmt.Sprintf("%d of the load's %s had no answer.", silent, unit.Count(total, "calls")))
	}
	return out
}

// dirtyNotes say what the preflight found before the run began, and while it settled. They cast doubt on
// every figure, and change no verdict: what was missed may have been missed
// without it, too.
func dirtyNotes(f *run.Facts) []string {
	var first, later, out []string
	said := map[string]bool{}
	for _, m := range f.EventsOf(record.EventDirty) {
		if m.At < f.Begin {
			first = append(first, m.Text)
		} else if !said[m.Text] {
			later = append(later, m.Text)
			said[m.Text] = true
		}
	}
	if len(first) > 0 {
		out = append(out, fmt.Sprintf("The plane was not clean when the run began: %s.", strings.Join(first, "; ")))
	}
	if len(later) > 0 {
		out = append(out, fmt.Sprintf("The plane did not get back to what it was like at first: %s.", strings.Join(later, "; ")))
	}
	return out
}

// closedNotes name the steps that kept so many calls at a time. Such a step asks
// less of a server the slower that is: its calls are due when they are sent,
// and what would have waited meanwhile is in no figure.
func closedNotes(f *run.Facts) []string {
	var names []string
	least, most := 0, 0
	for _, m := range f.EventsOf(record.EventLoadAsked) {
		if m.Parallel > 0 {
			if names = append(names, m.Name); least == 0 || m.Parallel < least {
				least = m.Parallel
			}
			most = max(most, m.Parallel)
		}
	}
	calls := fmt.Sprint(least)
	if most > least {
		calls += fmt.Sprintf(" to %d", most)
	}
	switch len(names) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("Step %s kept %s calls at a time (a closed loop): its latencies are service times, and it asked for less where the plane was slow.", names[0], calls)}
	}
	return []string{fmt.Sprintf("%s (%s to %s) kept %s calls at a time (closed loops): their latencies are service times, and they asked for less where the plane was slow.",
		unit.Count(len(names), "steps"), names[0], names[len(names)-1], calls)}
}

func timesText(n int) string {
	if n == 1 {
		return "once"
	}
	return unit.Count(n, "times")
}
