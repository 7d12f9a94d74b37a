package slo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// records judges the indicators that are made of calls and lifecycles.
type records struct {
	sc     *scenario.Scenario
	f      *run.Facts
	pods   pods
	failed failedCalls
}

// judgeRecords gives one result, or one for each value of the labels that the
// objective is split by.
func (c records) judgeRecords(r Result, o *scenario.Objective) []Result {
	if x, _ := sli.Find(o.SLI); len(o.Per) == 0 && len(x.Per) > 0 {
		split := *o
		split.Per = splitLabels(o, x)
		o = &split
	}
	splits := c.splitLabels(o)
	if len(o.Per) > 0 && len(splits) == 0 {
		setUnmeasured(&r, "nothing was measured")
		return []Result{r}
	}
	if len(o.Per) == 0 {
		c.judgeRecord(&r, o)
		return []Result{r}
	}
	var out []Result
	for _, labels := range splits {
		one, narrow := r, *o
		narrow.Labels = labels
		one.Labels = labels
		c.judgeRecord(&one, &narrow)
		out = append(out, one)
	}
	return out
}

// judgeRecord judges one objective on calls or lifecycles.
func (c records) judgeRecord(r *Result, o *scenario.Objective) {
	switch o.SLI {
	case "pod-startup":
		c.podStartup(r, o)
	case "lifecycle":
		c.judgeLifecycle(r, o)
	case "pod-deletion":
		c.judgeDeletion(r, o, "pods")
	case "namespace-deletion":
		c.judgeDeletion(r, o, "namespaces")
	case "call-latency":
		c.callLatency(r, o)
	case "call-unavailability", "call-outages":
		c.callOutages(r, o)
	case "write-violations", "unknown-writes":
		c.judgeWrites(r, o)
	case leaderless:
		c.judgeLeaderless(r, o)
	case "call-success":
		c.callSuccess(r, o)
	case abortedRun:
		c.judgeAborted(r)
	case unmetWait:
		c.judgeWait(r, o.Labels["step"])
	case FailedCalls:
		c.failed.judgeFailedCalls(r, o)
	case "pods-running-rate":
		c.runningRate(r, o)
	case "pods-bound-rate":
		c.boundRate(r, o)
	case "network-round-trip", "network-loss", "network-throughput", "network-cpu", "network-packet-cpu":
		networks{c}.judgeNetwork(r, o)
	case "network-turns-round-trip", "network-turns-throughput":
		networks{c}.judgeTurns(r, o)
	default:
		setUnmeasured(r, fmt.Sprintf("this version does not know the SLI %q", o.SLI+o.SLO))
	}
}

// splitLabels returns the labels of each result of an objective that is split, in
// the order of their values: of calls as they were made, of pods their groups.
func (c records) splitLabels(o *scenario.Objective) []map[string]string {
	found := map[string]map[string]string{}
	add := func(have map[string]string) {
		key, labels := "", maps.Clone(o.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		for _, name := range o.Per {
			key += have[name] + "\x00"
			labels[name] = have[name]
		}
		found[key] = labels
	}
	if o.SLI == leaderless {
		for _, name := range component.Names() {
			have := map[string]string{sli.Component: name}
			if labelsFit(have, o.Labels) && c.f.Leaderless(name).Readings > 0 {
				add(have)
			}
		}
	} else if strings.HasPrefix(o.SLI, "call-") || o.SLI == FailedCalls {
		for _, calls := range c.f.Calls {
			if matchesLabels(calls, o.Labels) && calls.Count() > 0 {
				add(calls.Labels())
			}
		}
	} else {
		all := c.f.Pods(nil)
		switch name := o.Labels["lifecycle"]; {
		case o.SLI == "namespace-deletion":
			all = c.f.OfResource("namespaces")
		case name != "" && name != scenario.PodLifecycle:
			all = c.f.Named(name)
		}
		for _, cluster := range run.Clusters(all) {
			for _, l := range run.In(all, cluster) {
				if have := map[string]string{"group": l.Group, "cluster": cluster}; labelsFit(have, o.Labels) {
					add(have)
				}
			}
		}
	}
	var out []map[string]string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out
}

// labelsFit tells whether what has these labels is among what an objective's ask for;
// labels that it has not are of other things.
func labelsFit(have, want map[string]string) bool {
	for name, value := range have {
		if asked, ok := want[name]; ok && asked != value {
			return false
		}
	}
	return true
}

// judgeDeletion judges the time from an object's deletion timestamp to its end.
func (c records) judgeDeletion(r *Result, o *scenario.Objective, resource string) {
	d := &stats.Durations{}
	for _, l := range inCluster(c.f.OfResource(resource), o.Labels) {
		if g := o.Labels["group"]; (l.Name == "" || resource != "pods") && (g == "" || l.Group == g) {
			l.Durations(d, record.PhaseDeleting, record.PhaseDeleted, c.f)
		}
	}
	c.holdDurations(r, d)
}

// callSuccess judges which share of calls was answered with success. A call
// without an answer has not been.
func (c records) callSuccess(r *Result, o *scenario.Objective) {
	r.Unit = "ratio"
	var all, ok, refused int
	for _, calls := range c.f.Calls {
		if matchesLabels(calls, o.Labels) {
			all, ok = all+calls.Count(), ok+calls.Outcomes[record.OK]
			for code, n := range calls.Refused {
				refused += c.failed.countRefusals(calls, code, n)
			}
		}
	}
	e := exactEstimate(0, float64(all))
	if all > 0 {
		e = exactEstimate(float64(ok)/float64(all), float64(all))
	}
	holdAgainstThreshold(r, e, false)
	r.certain = r.AtLeast && all > 0 && 1-float64(refused)/float64(all) < r.Threshold
}
