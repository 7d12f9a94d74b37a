package content

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Level says how much a finding weighs.
type Level string

// The levels of a finding.
const (
	Fine Level = "fine" // as it should be
	Note Level = "note" // to be known when the figures are quoted
	Bad  Level = "bad"  // the figures may be wrong
)

// Finding is one answer to "can I trust this run?".
type Finding struct {
	Level Level
	Name  string
	Text  string
}

// recordsFinding is about whether the run came to its end.
const recordsFinding = "Records"

// Bounds beyond which the instrument's own weight is pointed out.
const (
	notedShare = 0.25 // own CPU / the plane's
	badLate    = 0.01 // share of calls that left late
)

// trustFindings collects how far the run's figures can be trusted.
func trustFindings(facts *run.Facts, m record.Manifest, j slo.Judgement) []Finding {
	out := []Finding{endingFinding(facts), latenessFinding(facts, j.Self), selfCost(j.Self), instrumentsFinding(facts)}
	out = append(out, workersFinding(m, facts)...)
	out = append(out, fleetLateness(j.Measures)...)
	out = append(out, otherWork(j.Measures, m.Neighbours())...)
	if f := heartbeatsFinding(m.Fleet); f.Text != "" {
		out = append(out, f)
	}
	if m.Plane.Durability != "" {
		out = append(out, durabilityFinding(m.Plane))
	}
	if f := limitsFinding(m, j.Unmet); f.Text != "" {
		out = append(out, f)
	}
	return out
}

func endingFinding(facts *run.Facts) Finding {
	f := Finding{Fine, recordsFinding, "Complete: the run ended by itself and every record can be read."}
	end, deaths := facts.Ended, facts.EventsOf(record.EventDied)
	switch {
	case len(deaths) > 0:
		f.Level, f.Text = Bad, text.Sentence(deaths[0].Name+" died during the run")
	case facts.CutOff:
		f.Level, f.Text = Bad, fmt.Sprintf("Cut off: the last %s could not be read, as after a crash.", unit.Bytes(facts.LostBytes).Human())
	case end.Reason == "":
		f.Level, f.Text = Bad, "Without an end: the run was killed or is still going on."
	case end.Reason == record.Broken && end.Step != "": // after it the run may have deleted what it made
		f.Level, f.Text = Bad, text.Sentence("The run failed: step "+end.Step+": "+end.Text)
	case end.Reason == record.Broken:
		f.Level, f.Text = Bad, text.Sentence("The run failed: "+end.Text)
	case end.Reason == record.Aborted:
		f.Level, f.Text = Note, text.Sentence("The run was "+end.Text+prefixIfAny(", in step ", end.Name))
	case end.Reason != record.Done:
		f.Level, f.Text = Bad, text.Sentence("The run was "+string(end.Reason)+prefixIfAny(" in step ", end.Name))
	}
	return f
}

// prefixIfAny joins prefix and s, or nothing when s is empty.
func prefixIfAny(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func latenessFinding(facts *run.Facts, s slo.Self) Finding {
	late := loadLateness(facts)
	n := late.Len()
	if n == 0 {
		return Finding{Note, "Lateness", "The load sent no request."}
	}
	f := Finding{Fine, "Lateness", ""}
	if s.LateCalls > 0 {
		f.Level = Note
	}
	if float64(s.LateCalls) > badLate*float64(n) {
		f.Level = Bad
	}
	f.Text = fmt.Sprintf("%s of %s load requests were sent more than 100 ms late; p99 %s, max %s.",
		unit.Number(float64(s.LateCalls)), unit.Number(float64(n)),
		unit.Seconds(late.Quantile(0.99).Value), unit.Seconds(s.MaxLatenessSeconds))
	return f
}

func selfCost(s slo.Self) Finding {
	f := Finding{Fine, "Own cost", fmt.Sprintf("windtunnel itself used %s of CPU and at most %s of memory", unit.Seconds(s.CPUSeconds), unit.Bytes(s.MaxRSSBytes).Human())}
	if s.CPUSeconds == 0 {
		f.Text = fmt.Sprintf("windtunnel itself used at most %s of memory; its CPU time was not measured", unit.Bytes(s.MaxRSSBytes).Human())
	}
	if s.CPUShare > 0 {
		f.Text += fmt.Sprintf(", or %s of the plane's CPU", unit.Text(s.CPUShare, "ratio"))
	}
	if s.CPUShare > notedShare {
		f.Level = Note
	}
	f.Text += "."
	return f
}

// instrumentsFinding says whether the watches and the scrapes went through.
func instrumentsFinding(facts *run.Facts) Finding {
	gaps, missed := len(facts.EventsOf(record.EventWatchGap)), 0
	for _, n := range facts.NotScraped {
		missed += n
	}
	f := Finding{Fine, "Instruments", fmt.Sprintf("No watch was interrupted; %s scrapes, none failed.", unit.Number(float64(facts.Scrapes)))}
	if gaps+missed > 0 {
		f.Level = Note
		f.Text = fmt.Sprintf("%s of a watch; %d of %d scrapes failed.", unit.Count(gaps, "interruptions"), missed, facts.Scrapes+missed)
	}
	return f
}

func heartbeatsFinding(f record.FleetFacts) Finding {
	switch {
	case f.Nodes == 0:
		return Finding{}
	case f.LeaseSeconds == 0:
		return Finding{Note, "Heartbeats", "None: simulated nodes did not renew leases; real kubelets renew every 10 s."}
	case f.StretchedHeartbeat:
		text := fmt.Sprintf("Stretched: each node renewed its lease every %s; real kubelets renew every 10 s.", unit.Seconds(f.RenewEverySeconds))
		if f.StatusEverySeconds > 0 {
			text += fmt.Sprintf(" It posted its conditions every %s.", unit.Seconds(f.StatusEverySeconds))
		}
		return Finding{Note, "Heartbeats", text}
	default:
		return Finding{Fine, "Heartbeats", fmt.Sprintf("As a kubelet: each node renewed its lease every %s.", unit.Seconds(f.RenewEverySeconds))}
	}
}

func durabilityFinding(p record.PlaneFacts) Finding {
	if p.Durability == "fsync" {
		return Finding{Fine, "Durability", "etcd synced every write to " + cmp.Or(p.DataOn, "disk") + "."}
	}
	return Finding{Note, "Durability", "etcd did not sync its writes (data on " + cmp.Or(p.DataOn, "disk") + "): on a disk, every write takes longer."}
}

// limitsFinding names the components whose limits were asked for, and those of them that are
// not in force.
func limitsFinding(m record.Manifest, unmet []slo.Unmet) Finding {
	var in, out []string
	for _, u := range unmet {
		if name, limit := strings.CutPrefix(u.Asked, "limit of "); limit && u.State == record.NotInForce {
			out = append(out, name)
		}
	}
	all := m.Processes()
	if whole, limited := m.Plane.Whole(); limited {
		whole.Name = "the plane"
		all = append(all, whole)
	}
	for _, c := range all {
		switch {
		case c.CPULimit == 0 && c.MemoryLimit == 0 || slices.Contains(out, c.Name):
		case c.Limited:
			in = append(in, c.Name)
		default:
			out = append(out, c.Name)
		}
	}
	switch {
	case len(out) > 0:
		return Finding{Bad, "Limits", "Not in force for " + strings.Join(out, ", ") + "."}
	case len(in) > 0:
		return Finding{Fine, "Limits", "In force for " + strings.Join(in, ", ") + "."}
	default:
		return Finding{}
	}
}

// listWarnings lists what the run and its manifest warn of, each once. Steps that failed are
// among the reasons of the verdict.
func listWarnings(facts *run.Facts, m record.Manifest) []string {
	var out []string
	add := func(warning string) {
		if warning = text.Sentence(warning); warning != "" && !slices.Contains(out, warning) {
			out = append(out, warning)
		}
	}
	for _, mark := range facts.Events {
		switch mark.Type {
		case record.EventDied:
			add(mark.Name + " died: " + mark.Text)
		case record.EventWarned:
			add(mark.Text)
		}
	}
	for _, w := range m.Warnings {
		add(w)
	}
	return out
}

// TrustInShort counts the findings: "6 fine, 1 note".
func (r *Report) TrustInShort() string {
	count := map[Level]int{}
	for _, f := range r.Trust {
		count[f.Level]++
	}
	var parts []string
	for _, kind := range []struct {
		level     Level
		one, many string
	}{{Bad, "warning", "warnings"}, {Fine, "fine", "fine"}, {Note, "note", "notes"}} {
		switch n := count[kind.level]; {
		case n == 1:
			parts = append(parts, "1 "+kind.one)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %s", n, kind.many))
		}
	}
	return strings.Join(parts, ", ")
}
