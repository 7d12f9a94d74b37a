package publish

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// The levels of a result: which run rules it keeps, and that somebody else has flown it
// again, which no author can say of it.
const (
	LevelMeasured    = "measured"
	LevelPublishable = "publishable"
	LevelReproduced  = "reproduced"
)

// Bounds of the run rules, version 1: docs/reference/run-rules.md.
const (
	rulesVersion  = 1
	minRepeats    = 5
	maxStreak     = 2     // runs of one side in a row
	sampleMargin  = 0.3   // of what a percentile leaves over
	sampleZ       = 2.576 // two-sided confidence of 99 %
	minSteady     = 600 * time.Second
	controlWithin = time.Hour
)

// Rule is one run rule and whether the runs keep it.
type Rule struct {
	Name string `json:"name"`
	Says string `json:"says"`
	Met  bool   `json:"met"`
	Why  string `json:"why,omitempty"` // where it is not met, or does not apply
}

// rules checks the run rules, in the order of the page.
type rules struct {
	measured
	claims  []ClaimResult
	control *compare.Comparison
	all     []compare.Run // also those that ended early
	flown   []compare.Run // of the control
	missing []string
}

// check returns every rule and the level that follows.
func (r rules) check() (out []Rule, level string) {
	level = LevelPublishable
	for _, c := range []struct {
		name, says string
		why        func() (why string, met bool)
	}{
		{"repeats", fmt.Sprintf("at least %s of each side or point", unit.Count(minRepeats, "finished runs")), r.repeats},
		{"order", fmt.Sprintf("the sides take turns: at most %s of one side in a row", unit.Count(maxStreak, "runs")), r.order},
		{"samples", fmt.Sprintf("enough samples behind each percentile that is claimed: %d for a p99", samplesFor(0.99)), r.samples},
		{"steady", fmt.Sprintf("at least %.0f s of load where a claim is on a steady state", minSteady.Seconds()), r.steady},
		{"neighbors", fmt.Sprintf("other processes used at most %.0f %% of the CPU, the hypervisor %.0f %%", 100*record.DefaultMaxNeighbours, 100*record.StealShare), r.neighbours},
		{"control", "an A/A comparison within one hour of the runs shows no difference", r.controlled},
		{"complete", "every run since the experiment began is there, with the reason of each that ended early", r.complete},
		{"durability", "it is said whether etcd syncs its writes to the disk", r.durability},
		{"known", "no run's verdict is unknown, and nothing that was asked for is unmet", r.known},
	} {
		why, met := c.why()
		if !met {
			level = LevelMeasured
		}
		out = append(out, Rule{c.name, c.says, met, why})
	}
	return out, level
}

// repeats counts the runs of each point: a side with the same parameters.
func (r rules) repeats() (string, bool) {
	for i, side := range r.sides {
		points := map[string]int{}
		for _, run := range side {
			points[fmt.Sprint(run.Manifest.Parameters)]++
		}
		if len(side) == 0 {
			return fmt.Sprintf("side %s has no finished run", sideLetter(i)), false
		}
		for _, p := range slices.Sorted(maps.Keys(points)) {
			if points[p] < minRepeats {
				return fmt.Sprintf("side %s has %s of one point", sideLetter(i), unit.Count(points[p], "finished runs")), false
			}
		}
	}
	return "", true
}

func sideLetter(i int) string { return string(rune('A' + i)) }

func (r rules) order() (string, bool) {
	if len(r.sides) == 1 {
		return "one side", true
	}
	type turn struct {
		side int
		at   time.Time
	}
	var turns []turn
	for i, side := range r.sides {
		for _, run := range side {
			turns = append(turns, turn{i, run.Manifest.Started})
		}
	}
	slices.SortStableFunc(turns, func(a, b turn) int { return a.at.Compare(b.at) })
	streak := 0
	for i, t := range turns {
		if streak++; i > 0 && t.side != turns[i-1].side {
			streak = 1
		}
		if streak > maxStreak {
			return fmt.Sprintf("%s of side %s began one after another", unit.Count(streak, "runs"), sideLetter(t.side)), false
		}
	}
	return "", true
}

// samplesFor is how many samples a percentile needs, so that it is known with a confidence
// of 99 % within a margin of its distance to 1: the formula of MLPerf's rules for
// inference, whose margin is a twentieth.
func samplesFor(q float64) int {
	margin := sampleMargin * (1 - q)
	return int(math.Ceil(sampleZ * sampleZ * q * (1 - q) / (margin * margin)))
}

func (r rules) samples() (string, bool) {
	for _, c := range r.claims {
		q, ok := quantileOf(c.Measure)
		switch {
		case !ok:
		case c.Samples == 0:
			return fmt.Sprintf("it is not known how many samples are behind %s: an objective of the scenario would tell", c.Measure), false
		case c.Samples < samplesFor(q):
			return fmt.Sprintf("%s has %s in a run, want %d", c.Measure, unit.Count(c.Samples, "samples"), samplesFor(q)), false
		}
	}
	return "", true
}

// quantileOf returns the quantile that a measure is.
func quantileOf(key string) (q float64, ok bool) {
	for word := range strings.SplitSeq(key, "_") {
		if q, ok := stats.Parse(word); ok && strings.HasPrefix(word, "p") && q > 0 && q < 1 {
			return q, true
		}
	}
	return 0, false
}

// fewestSamples is how many samples are behind a percentile, in the run with the fewest:
// the pods that reached its phase, or the samples of the objective with that value.
func fewestSamples(key string, runs []compare.Run) int {
	if _, ok := quantileOf(key); !ok {
		return 0
	}
	fewest := math.MaxInt
	for _, r := range runs {
		n := 0
		family, group, _ := strings.Cut(key, "_seconds")
		for prefix, counted := range map[string]string{"pod_startup": "pods_running", "create_to_bound": "pods_running", "bound_to_running": "pods_running", "deleting_to_deleted": "pods_deleted"} {
			if strings.HasPrefix(family, prefix+"_p") {
				n = int(r.Judgement.Measures[counted+group].Value)
			}
		}
		for _, o := range r.Judgement.Objectives {
			if q, ok := quantileOf(key); n == 0 && ok && o.Value != nil && o.Statistic == stats.Name(q) && *o.Value == r.Judgement.Measures[key].Value {
				n = o.Samples
			}
		}
		fewest = min(fewest, n)
	}
	return fewest
}

func (r rules) steady() (string, bool) {
	claimed := slices.ContainsFunc(r.claims, func(c ClaimResult) bool { return c.Steady })
	if !claimed {
		return "no claim is on a steady state", true
	}
	for _, run := range slices.Concat(r.sides...) {
		if s := run.Judgement.Measures["run_seconds"].Value; s < minSteady.Seconds() {
			return fmt.Sprintf("%s lasted %s", run.Name, unit.Seconds(s)), false
		}
	}
	return "", true
}

func (r rules) neighbours() (string, bool) {
	for _, run := range slices.Concat(r.sides...) {
		others, ok := run.Judgement.Measures["host_others_share"]
		steal := run.Judgement.Measures["host_steal_share"]
		switch {
		case !ok:
			return run.Name + ": what other processes used was not measured", false
		case others.Value > record.DefaultMaxNeighbours:
			return fmt.Sprintf("%s: other processes used %.0f %%", run.Name, 100*others.Value), false
		case steal.Value > record.StealShare:
			return fmt.Sprintf("%s: the hypervisor kept %.0f %%", run.Name, 100*steal.Value), false
		}
	}
	return "", true
}

func (r rules) controlled() (string, bool) {
	if r.control == nil {
		return "there is no control", false
	}
	if n := len(r.control.Differences); n > 0 {
		return fmt.Sprintf("its sides differ in %s", r.control.Differences[0].Fact), false
	}
	if found, _ := r.control.Findings(); len(found) > 0 {
		return "it shows a difference: " + found[0], false
	}
	runs := slices.Concat(r.sides...)
	if len(runs) == 0 || len(r.flown) == 0 || !compare.SameMachine(runs[0], r.flown[0]) {
		return "it was flown on another machine", false
	}
	gap := time.Duration(math.MaxInt64)
	for _, c := range r.flown {
		for _, run := range runs {
			gap = min(gap, c.Manifest.Started.Sub(run.Manifest.Started).Abs())
		}
	}
	if gap > controlWithin {
		return fmt.Sprintf("it was flown %s apart", gap.Round(time.Minute)), false
	}
	return "", true
}

func (r rules) complete() (string, bool) {
	if len(r.missing) > 0 {
		return "missing: " + strings.Join(r.missing, ", "), false
	}
	return "", true
}

func (r rules) durability() (string, bool) {
	for _, run := range slices.Concat(r.sides...) {
		if run.Manifest.Plane.Durability == "" {
			return fmt.Sprintf("%s does not say it (plane: %s)", run.Name, cmp.Or(run.Manifest.Plane.Kind, "unknown")), false
		}
	}
	return "", true
}

func (r rules) known() (string, bool) {
	for _, run := range slices.Concat(r.sides...) {
		switch {
		case run.Judgement.Verdict == slo.Unknown:
			return run.Name + ": its verdict is unknown", false
		case len(run.Judgement.Unmet) > 0:
			return run.Name + ": something that was asked for is unmet", false
		}
	}
	return "", true
}
