package content

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// fleetLateness says how late the simulated nodes did what they had to.
func fleetLateness(m map[string]slo.Measure) []Finding {
	stages, sent := m["fleet_lateness_p99_seconds"]
	renewals, renewed := m["lease_lateness_p99_seconds"]
	var parts []string
	if sent {
		parts = append(parts, fmt.Sprintf("p99 of status updates of pods and nodes %s", unit.Seconds(stages.Value)))
	}
	if renewed {
		parts = append(parts, fmt.Sprintf("p99 of lease renewals %s", unit.Seconds(renewals.Value)))
	}
	if len(parts) == 0 {
		return nil
	}
	level := Fine
	if stages.Value > slo.TooLateStage.Seconds() {
		level = Bad
	}
	return []Finding{{level, "Fleet on time", "Lateness of requests: " + strings.Join(parts, ", ") + "."}}
}

// otherWork says what else the machine did during the run.
func otherWork(m map[string]slo.Measure, allowed float64) []Finding {
	others, known := m["host_others_share"]
	steal, counted := m["host_steal_share"]
	var parts []string
	level, byDefault := Fine, ""
	if allowed != record.DefaultMaxNeighbours {
		byDefault = fmt.Sprintf(", default %.0f %%", 100*record.DefaultMaxNeighbours)
	}
	if known {
		parts = append(parts, fmt.Sprintf("other processes used %s of the CPU (limit %.3g %%%s)", unit.Text(others.Value, "ratio"), 100*allowed, byDefault))
	}
	if counted {
		parts = append(parts, fmt.Sprintf("the hypervisor kept %s (limit %.0f %%)", unit.Text(steal.Value, "ratio"), 100*record.StealShare))
	}
	if len(parts) == 0 {
		return nil
	}
	if others.Value > allowed || steal.Value > record.StealShare {
		level = Bad
	}
	name := "Other work"
	if level == Bad {
		name = "Noisy machine"
	}
	return []Finding{{level, name, text.Capital(strings.Join(parts, ", ") + ".")}}
}

// cleanStart says what the plane was like when the run began.
func cleanStart(g *record.PreflightFacts) []Finding {
	switch {
	case g == nil:
		return nil
	case g.Clean && g.Waited >= 1:
		return []Finding{{Fine, "Leftovers", "No leftovers from earlier runs, after a wait of " + unit.Seconds(math.Round(g.Waited)) + "."}}
	case g.Clean:
		return []Finding{{Fine, "Leftovers", "No leftovers from earlier runs."}}
	}
	var texts []string
	for _, f := range g.Findings {
		texts = append(texts, f.Text)
	}
	return []Finding{{Bad, "Not clean at the start", text.Sentence(text.Capital(cmp.Or(strings.Join(texts, "; "), "the plane did not come to rest")))}}
}

// settledFinding says whether the plane came to rest where the scenario waited for it.
func settledFinding(in *run.Run) []Finding {
	rested, asked := 0, 0
	var names []string
	for _, name := range settleSteps(in) {
		for _, s := range in.Facts.Steps {
			if s.Name != name {
				continue
			}
			if asked++; s.Ended && s.Note == "" {
				rested++
			} else {
				names = append(names, name)
			}
		}
	}
	switch {
	case asked == 0:
		return nil
	case rested < asked:
		return []Finding{{Bad, "Settling", fmt.Sprintf("The plane did not become idle in step %s: later steps started on a busy plane.", strings.Join(slices.Compact(names), ", "))}}
	default:
		return []Finding{{Fine, "Settling", "The plane became idle each time a step waited for it: " + unit.Text(float64(asked), "times") + "."}}
	}
}

// settleSteps names the steps of the scenario that wait for the plane to come to
// rest.
func settleSteps(in *run.Run) []string {
	var out []string
	if in.Scenario == nil {
		return nil // which is said elsewhere
	}
	for s := range in.Scenario.AllSteps() {
		if s.Settle != nil {
			out = append(out, s.Name)
		}
	}
	return out
}
