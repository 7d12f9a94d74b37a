package slo

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// turn is what one step found of a path that several steps measure.
type turn struct {
	value float64
	found bool
}

// statisticPerTurn returns a statistic of each turn of a path, in the order of its steps. A round
// trip that nothing bounds, since too many echoes were lost, is not found.
func (n networks) statisticPerTurn(path, indicator, statistic string) (out []turn) {
	for step := range n.sc.AllSteps() {
		x := step.Network
		if x == nil || x.Path == "" || x.Path != path {
			continue
		}
		switch {
		case indicator == "network-turns-round-trip" && x.Echo != nil:
			q, _ := stats.Parse(statistic)
			e := n.roundTrips(step.Name).took.Quantile(q)
			out = append(out, turn{e.Value, e.Samples > 0 && e.Value == e.High})
		case indicator == "network-turns-throughput" && x.Stream != nil:
			all := n.receivedSeries(step.Name)
			if len(all) == 1 && all[0].Len() > 1 {
				out = append(out, turn{meanRate(all[0]), true})
				continue
			}
			out = append(out, turn{})
		}
	}
	return out
}

// judgeTurns judges the median over a path's turns, or over the differences to another
// path: of two turns that lie side by side, since a machine's speed drifts.
func (n networks) judgeTurns(r *Result, o *scenario.Objective) {
	x, _ := sli.Find(o.SLI)
	r.Unit = x.UnitOf(o.Statistic)
	than := o.Labels["than"]
	all := n.statisticPerTurn(o.Labels["path"], o.SLI, o.Statistic)
	others := n.statisticPerTurn(than, o.SLI, o.Statistic)
	values, missing := []float64{}, 0
	for i, one := range all {
		if than == "" {
			others = append(others, turn{0, true})
		}
		if !one.found || i >= len(others) || !others[i].found {
			missing++
			continue
		}
		values = append(values, one.value-others[i].value)
	}
	if len(values) == 0 {
		setUnmeasured(r, "no turn of the path was measured")
		return
	}
	holdAgainstThreshold(r, stats.Median(values), false)
	if missing > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d turns were not measured, or echoes were lost in them", missing, len(all)))
	}
}

// turnMeasures sets the medians over turns, by path.
func (n networks) turnMeasures(m Measures) {
	var paths []string
	for step := range n.sc.AllSteps() {
		if x := step.Network; x != nil && x.Path != "" && !slices.Contains(paths, x.Path) {
			paths = append(paths, x.Path)
		}
	}
	set := func(path, indicator, statistic, name, unit string) {
		var values []float64
		for _, one := range n.statisticPerTurn(path, indicator, statistic) {
			if one.found {
				values = append(values, one.value)
			}
		}
		if len(values) > 0 {
			m.set(joinKey(name, path), stats.Median(values).Value, unit)
		}
	}
	for _, path := range paths {
		for _, q := range []string{"p50", "p99"} {
			set(path, "network-turns-round-trip", q, "network_turns_round_trip_"+q+"_seconds", "seconds")
		}
		set(path, "network-turns-throughput", "mean", "network_turns_throughput", "bit/s")
	}
}

// inTurns says that a step is one of several that measure a path: what it found stands with
// the path, and not by itself.
func (n networks) inTurns(name string) bool {
	for step := range n.sc.AllSteps() {
		if step.Name == name {
			return step.Network != nil && step.Network.Path != ""
		}
	}
	return false
}
