package slo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/run"
)

// namedMeasures is how many measures without a value are named.
const namedMeasures = 5

// notes are sentences that a reader should know beside the verdict, whatever
// it is: what went wrong without spoiling it, and what was not put to the test.
func (j *judging) notes() []string {
	out := slices.Clone(j.untested)
	out = append(out, j.uncleanNotes()...)
	out = append(out, j.stepNotes()...)
	out = append(out, j.closedNotes()...)
	var failed, unanswered, total int
	for _, c := range j.f.Calls {
		if c.Source == run.Load {
			total += c.Count()
			failed += c.Outcomes[record.Failed]
			unanswered += c.Outcomes[record.Unknown]
		}
	}
	if failed > 0 {
		out = append(out, fmt.Sprintf("%d of the load's %d calls failed.", failed, total))
	}
	if unanswered > 0 {
		out = append(out, fmt.Sprintf("%d of the load's %d calls had no answer.", unanswered, total))
	}
	for _, what := range slices.Sorted(maps.Keys(j.f.Unknown)) {
		out = append(out, fmt.Sprintf("%d events of type %q were skipped: a later version wrote them (records of format %d).", j.f.Unknown[what], what, j.f.Format))
	}
	if n := len(j.f.EventsOf(record.EventWatchGap)); n > 0 {
		out = append(out, fmt.Sprintf("windtunnel's own watch was torn %s; what happened meanwhile counts as known only within bounds.", times(n)))
	}
	for _, target := range slices.Sorted(maps.Keys(j.f.NotScraped)) {
		out = append(out, fmt.Sprintf("The metrics of %s could not be read %s.", target, times(j.f.NotScraped[target])))
	}
	if n := len(j.unanswered); n > 0 {
		named := strings.Join(j.unanswered[:min(n, namedMeasures)], "; ")
		if n > namedMeasures {
			named += fmt.Sprintf("; and %d more", n-namedMeasures)
		}
		out = append(out, "Without a value, because their queries had no answer: "+named+".")
	}
	if n := len(j.starts()); n > 1 {
		out = append(out, fmt.Sprintf("%s was started anew %s during the run; what it had counted since its last scrape before is lost.", apiServer, times(n-1)))
	}
	return out
}

// uncleanNotes say what the gate found before the run began, and when it cooled. They cast doubt on
// every figure, and change no verdict: what was missed may have been missed
// without it, too.
func (j *judging) uncleanNotes() []string {
	var first, later, out []string
	for _, m := range j.f.EventsOf(record.EventDirty) {
		if m.At < j.f.Begin {
			first = append(first, m.Text)
		} else if !slices.Contains(later, m.Text) {
			later = append(later, m.Text)
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

// stepNotes name the steps that did not do what they should and did not stop
// the run either.
func (j *judging) stepNotes() []string {
	var out []string
	for _, m := range j.f.EventsOf(record.EventStepEnded) {
		end := j.f.Ended
		if m.Text != "" && m.Step == "" && (end.Reason == record.Done || end.Reason == record.Broken && end.Step != m.Name) {
			out = append(out, fmt.Sprintf("Step %s did not do what it should: %s.", m.Name, strings.TrimSuffix(m.Text, ".")))
		}
	}
	return out
}

// closedNotes name the steps that kept so many calls at a time. Such a step asks
// less of a server the slower that is: its calls are due when they are sent,
// and what would have waited meanwhile is in no figure.
func (j *judging) closedNotes() []string {
	var out []string
	for _, m := range j.f.EventsOf(record.EventLoadAsked) {
		if m.Parallel > 0 {
			out = append(out, fmt.Sprintf("Step %s kept %d calls at a time (a closed loop): its latencies are service times, and it asked for less where the plane was slow.", m.Name, m.Parallel))
		}
	}
	return out
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// starts returns the API server's start times in the order in which scrapes
// met them within the run.
func (j *judging) starts() []float64 {
	var out []float64
	for _, s := range j.f.Series.Select(apiServer, startTime, nil) {
		if v, ok := s.At(j.f.Begin); ok {
			out = append(out, v)
		}
		for i := range s.Len() {
			if at, v := s.Sample(i); at > j.f.Begin && at <= j.f.End {
				out = append(out, v)
			}
		}
	}
	return slices.Compact(out)
}

// several reports whether scrapes met more than one API server behind one
// address: an earlier start time was met again after a later one. Their
// counters cannot be told apart then.
func (j *judging) several() bool {
	starts := j.starts()
	return !slices.IsSorted(starts)
}
