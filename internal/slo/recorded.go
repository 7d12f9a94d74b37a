package slo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// recorded judges an indicator that is made of calls and lives: one result, or
// one for each value of the labels that the objective is split by.
func (j *judging) recorded(r Result, o *scenario.Objective) []Result {
	splits := j.splits(o)
	if len(o.Per) > 0 && len(splits) == 0 {
		unmeasured(&r, "nothing was measured")
		return []Result{r}
	}
	if len(o.Per) == 0 {
		j.record(&r, o)
		return []Result{r}
	}
	var out []Result
	for _, labels := range splits {
		one, narrow := r, *o
		narrow.Labels = labels
		one.Labels = labels
		j.record(&one, &narrow)
		out = append(out, one)
	}
	return out
}

// record judges one objective on calls or lives.
func (j *judging) record(r *Result, o *scenario.Objective) {
	switch o.SLI {
	case "pod-startup":
		j.podStartup(r, o)
	case "lifecycle":
		j.life(r, o)
	case "pod-deletion":
		j.deletion(r, o, "pods")
	case "namespace-deletion":
		j.deletion(r, o, "namespaces")
	case "call-latency":
		j.callLatency(r, o)
	case "call-success":
		j.callSuccess(r, o)
	case "pods-running-rate":
		j.runningRate(r, o)
	case "pods-bound-rate":
		j.boundRate(r, o)
	default:
		unmeasured(r, fmt.Sprintf("this version does not know the SLI %q", o.SLI+o.SLO))
	}
}

// splits returns the labels of each result of an objective that is split, in
// the order of their values: of calls as they were made, of pods their groups.
func (j *judging) splits(o *scenario.Objective) []map[string]string {
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
	if strings.HasPrefix(o.SLI, "call-") {
		for _, c := range j.f.Calls {
			if matches(c, o.Labels) && c.Count() > 0 {
				add(c.Labels())
			}
		}
	} else if life := o.Labels["lifecycle"]; life != "" && life != scenario.PodLifecycle {
		for _, l := range j.f.Named(life) {
			add(map[string]string{"group": l.Group})
		}
	} else {
		for _, g := range j.f.PodGroups() {
			add(map[string]string{"group": g})
		}
	}
	var out []map[string]string
	for _, key := range slices.Sorted(maps.Keys(found)) {
		out = append(out, found[key])
	}
	return out
}

// inState returns the groups of pods that labels ask for; no group stands for
// all of them. It is false where the state asked for is that of no group.
func (j *judging) inState(labels map[string]string) (groups []string, some bool) {
	if g := labels["group"]; g != "" {
		groups = []string{g}
	}
	state := labels["state"]
	if state == "" {
		return groups, true
	}
	if groups == nil {
		groups = j.f.PodGroups()
	}
	stateful := j.stateful()
	groups = slices.DeleteFunc(groups, func(g string) bool { return stateful[g] != (state == "stateful") })
	return groups, len(groups) > 0
}

// stateful returns the groups of pods with state of their own: those of steps
// that made StatefulSets or claims on volumes. What a group's pods mount is not
// looked at.
func (j *judging) stateful() map[string]bool {
	out := map[string]bool{}
	for s := range j.sc.AllSteps() {
		for _, c := range j.f.Calls {
			if s.Create != nil && c.Step == s.Name && c.Verb == "create" && (c.Resource == "statefulsets.apps" || c.Resource == "persistentvolumeclaims") {
				out[s.Create.Group] = true
			}
		}
	}
	return out
}

// deletion judges the time from an object's deletion timestamp to its end.
func (j *judging) deletion(r *Result, o *scenario.Objective, resource string) {
	d := &stats.Durations{}
	for _, l := range j.f.Lifecycles {
		if g := o.Labels["group"]; l.Resource == resource && (l.Name == "" || resource != "pods") && (g == "" || l.Group == g) {
			l.Durations(d, record.PhaseDeleting, record.PhaseDeleted, j.f.Facts)
		}
	}
	j.holdDurations(r, d)
}

// callSuccess judges which share of calls was answered with success. A call
// without an answer has not been.
func (j *judging) callSuccess(r *Result, o *scenario.Objective) {
	r.Unit = "ratio"
	var all, ok int
	for _, c := range j.f.Calls {
		if matches(c, o.Labels) {
			all, ok = all+c.Count(), ok+c.Outcomes[record.OK]
		}
	}
	e := exactly(0, float64(all))
	if all > 0 {
		e = exactly(float64(ok)/float64(all), float64(all))
	}
	hold(r, e, false)
}
