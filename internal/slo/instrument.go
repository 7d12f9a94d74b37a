package slo

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/run"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Bounds on the instrument itself (rule of measurement 4). Beyond them the
// verdict is unknown.
const (
	// TooLateShare is the share of the load's calls that may be sent more than
	// Late after they were due. At 1 % a 99th percentile begins to hold the
	// instrument's own delay.
	TooLateShare = 0.01
	// TooLateStage is how late the 99th percentile of the fleet's own calls
	// may be sent: a fifth of the time that the official objective gives a pod.
	TooLateStage = time.Second
	// leaseSlack is the share of its lease's duration by which the 99th
	// percentile of renewals may be late: a renewal comes due after a quarter,
	// so that half of the lease is left when one such comes in.
	leaseSlack = 4
)

// Instrument is the target of windtunnel's own samples.
const Instrument = "windtunnel"

// cutShort says why the run did not come to its end, in sentences; nothing
// when it did.
func (j *judging) cutShort() []string {
	var out []string
	for _, m := range j.f.EventsOf(record.EventDied) {
		first, _, _ := strings.Cut(m.Text, "\n")
		out = append(out, fmt.Sprintf("%s died during the run: %s", m.Name, strings.TrimSpace(first)))
	}
	switch {
	case j.f.Ended.Reason == "":
		out = append(out, fmt.Sprintf("The records end %.1f s after the run began and without its end: windtunnel was killed, or could not write any further.",
			j.f.End.Sub(j.f.Begin).Seconds()))
	case j.f.Ended.Reason == record.Interrupted:
		out = append(out, fmt.Sprintf("The run was interrupted%s.", inStep(j.f.Ended.Name)))
	case j.f.Torn:
		out = append(out, "The records end in the middle of one.")
	}
	if len(out) == 0 && !j.begun() {
		out = append(out, "The run did not get as far as its first step"+why(j.f.Ended)+".")
	}
	return out
}

func (j *judging) begun() bool { return len(j.f.EventsOf(record.EventRunBegan)) > 0 }

// why is what an end says of its reason.
func why(end record.Event) string {
	text := strings.TrimSuffix(end.Text, ".")
	switch {
	case end.Step != "":
		return ": step " + end.Step + " failed: " + text
	case text != "":
		return ": " + text
	}
	return ""
}

// stopped says that a step did not do what it should, so that the run was
// stopped, though it was flown and recorded to its end.
func (j *judging) stopped() []string {
	end := j.f.Ended
	if end.Reason != record.Broken || len(j.f.EventsOf(record.EventDied)) > 0 || !j.begun() {
		return nil
	}
	// The step that failed is named: after it deletions are run, so that it need
	// not be the one in which the run ended.
	if end.Step != "" {
		return []string{"The run was stopped" + why(end) + "."}
	}
	return []string{fmt.Sprintf("The run was stopped%s%s.", inStep(end.Name), why(end))}
}

func inStep(name string) string {
	if name == "" {
		return ""
	}
	return " in step " + name
}

// instrument says where windtunnel itself was too slow to be believed.
func (j *judging) instrument() []string {
	var out []string
	total, late := 0, 0
	for _, c := range j.f.Calls {
		if c.Source == run.Load {
			total, late = total+c.Count(), late+c.Late
		}
	}
	if float64(late) > TooLateShare*float64(total) {
		out = append(out, fmt.Sprintf("windtunnel could not keep its own pace: %d of the load's %d calls (%.1f %%) were sent more than %v late, at most %.0f %% may be. The plane's latencies are not to be believed; give windtunnel more CPU or ask for a lower rate.",
			late, total, 100*float64(late)/float64(total), run.Late, 100*TooLateShare))
	}
	out = append(out, j.holes()...)
	stages, renewals := j.stages, j.renewals
	if e := stages.Quantile(0.99); e.Value > TooLateStage.Seconds() {
		out = append(out, fmt.Sprintf("The simulated nodes were too slow: 1 %% of their calls were sent more than %.3g s after they were due, at most %v may pass. Pods were late for windtunnel's sake too, not the plane's alone.",
			e.Value, TooLateStage))
	}
	bound := j.m.Fleet.LeaseSeconds / leaseSlack
	if e := renewals.Quantile(0.99); bound > 0 && e.Value > bound {
		out = append(out, fmt.Sprintf("The simulated nodes renewed their leases too late: 1 %% of renewals were sent more than %.3g s after they were due, at most a quarter of the lease, %.3g s, may pass. Nodes may have been taken for dead because of windtunnel.",
			e.Value, bound))
	}
	return out
}

// fleetLateness returns how late the fleet sent what its stages asked for, and
// how late its lease renewals.
func (f *facts) fleetLateness() (stages, renewals *stats.Durations) {
	var stage, renewal []*stats.Durations
	for _, c := range f.Calls {
		switch {
		case c.Source != run.Fleet || c.Verb == "get" || c.Verb == "list" || c.Verb == "watch":
		case c.Resource == run.Leases && c.Verb == "update":
			renewal = append(renewal, &c.Lateness)
		case c.Resource != run.Leases:
			stage = append(stage, &c.Lateness)
		}
	}
	return stats.Merged(stage), stats.Merged(renewal)
}
