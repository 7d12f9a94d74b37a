package slo

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// cutShort says why the run did not come to its end, in sentences; nothing
// when it did.
func cutShort(f *run.Facts) []string {
	var out []string
	for _, m := range f.EventsOf(record.EventDied) {
		out = append(out, describeDeath(m))
	}
	switch {
	case f.Ended.Reason == "":
		out = append(out, fmt.Sprintf("The records end %.1f s after the run began and without its end: windtunnel was killed, or could not write any further.",
			f.End.Sub(f.Begin).Seconds()))
	case f.Ended.Reason == record.Interrupted:
		out = append(out, fmt.Sprintf("The run was interrupted%s.", inStep(f.Ended.Name)))
	case f.CutOff:
		out = append(out, "The records end in the middle of one.")
	}
	if len(out) == 0 && !f.Began() {
		out = append(out, "The run did not get as far as its first step"+endReason(f.Ended)+".")
	}
	return append(out, openUpgrades(f)...)
}

// openUpgrades says of each upgrade step that a run was killed or interrupted in which process it
// was changing, and which it had changed.
func openUpgrades(f *run.Facts) (out []string) {
	if f.Ended.Reason != "" && f.Ended.Reason != record.Interrupted {
		return nil
	}
	parts := f.Parts()
	for _, s := range f.Steps {
		own := slices.DeleteFunc(slices.Clone(parts), func(p run.Part) bool { return p.Step != s.Name })
		if len(own) == 0 || s.Ended && s.Note == "" {
			continue
		}
		under, done := "was between two processes", []string{}
		for _, p := range own {
			if p.Ended && p.Note == "" {
				done = append(done, p.Name)
				continue
			}
			under = "was changing " + p.Name
			if p.From != "" {
				under += " from " + p.From
			}
			under += " to " + p.To
		}
		before := "nothing had been upgraded before"
		if len(done) > 0 {
			before = "upgraded before: " + strings.Join(done, ", ")
		}
		out = append(out, fmt.Sprintf("The upgrade was not completed: step %s %s; %s.", s.Name, under, before))
	}
	return out
}

// describeDeath says how a component died. What a process left in its log stands in the event
// below the first line, which names the process once more and ends with the log's path.
func describeDeath(m record.Event) string {
	first, _, _ := strings.Cut(m.Text, "\n")
	how, isProcess := strings.CutPrefix(first, m.Name+" died (")
	how, log, closed := strings.Cut(how, ")")
	if !isProcess || !closed {
		return fmt.Sprintf("%s died during the run: %s", m.Name, strings.TrimSpace(first))
	}
	said := "; its last words are in "
	if strings.Contains(log, "left nothing") {
		said = " and left nothing in "
	}
	path := strings.TrimSuffix(strings.TrimSpace(log), ":")
	return fmt.Sprintf("%s died during the run (%s)%slogs/%s.", m.Name, how, said, filepath.Base(path))
}

// endReason is what an end says of its reason.
func endReason(end record.Event) string {
	text := strings.TrimSuffix(end.Text, ".")
	switch {
	case end.Step != "":
		return ": step " + end.Step + " failed: " + text
	case text != "":
		return ": " + text
	}
	return ""
}

// stopReasons says that a step failed, so that the run was stopped, though it was flown and
// recorded to its end. Of a step that was refuted that is said by itself.
func stopReasons(f *run.Facts, unmet []Unmet) []string {
	end := f.Ended
	if end.Reason != record.Broken || len(f.EventsOf(record.EventDied)) > 0 || !f.Began() {
		return nil
	}
	if slices.ContainsFunc(unmet, func(u Unmet) bool { return u.State == record.Refuted && u.Asked == "step "+end.Step }) {
		return nil
	}
	// The step that failed is named: after it deletions are run, so that it need
	// not be the one in which the run ended.
	if end.Step != "" {
		return []string{"The run was stopped" + endReason(end) + "."}
	}
	return []string{fmt.Sprintf("The run was stopped%s%s.", inStep(end.Name), endReason(end))}
}

func inStep(name string) string {
	if name == "" {
		return ""
	}
	return " in step " + name
}
