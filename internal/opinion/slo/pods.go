package slo

import (
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/scenario"
)

// pods are those of a run beside those that its scenario asks for.
type pods struct {
	sc *scenario.Scenario
	f  *run.Facts
}

// inCluster are the parts of some lifecycles that labels ask for: of one cluster, or
// all of them where the labels name none.
func inCluster(all []*run.Lifecycles, labels map[string]string) []*run.Lifecycles {
	if name, ok := labels["cluster"]; ok {
		return run.In(all, name)
	}
	return all
}

// collectDurations collects the time from one phase to another of the pods of some
// groups, in the cluster that labels name. Pods that a wait step asks for and that were never seen count as not
// having got anywhere, which r's warnings then say.
func (p pods) collectDurations(r *Result, labels map[string]string, groups []string, from, to string) *stats.Durations {
	d := &stats.Durations{}
	seen := map[string]int{}
	for _, l := range inCluster(p.f.Pods(groups), labels) {
		l.Durations(d, from, to, p.f)
		seen[l.Group] += l.Reached(from)
	}
	for _, missing := range p.findMissing(labels, groups, from, seen) {
		for range missing.n {
			d.AddBetween(0, stats.Forever)
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of the %d pods of group %s were never seen %s",
			missing.n, missing.want, missing.group, from))
	}
	return d
}

// missing is how many pods of a group a wait asks for and nobody saw.
type missing struct {
	group   string
	n, want int
}

// findMissing compares what was seen in a phase with the most that a wait step
// asks for of that phase or a later one, and with the pods that the load
// created itself, in the clusters that labels ask for.
func (p pods) findMissing(labels map[string]string, groups []string, phase string, seen map[string]int) []missing {
	want := map[string]int{}
	asked := p.observedClusters(labels)
	for s := range p.sc.AllSteps() {
		switch {
		case s.Wait != nil && s.Wait.Are != "deleted" && phaseRank(s.Wait.Are) >= phaseRank(phase) && p.stepBegan(s.Name):
			want[s.Wait.Pods] = max(want[s.Wait.Pods], s.Wait.Count*p.countClusters(s.Cluster, asked))
		case s.Create != nil:
			want[s.Create.Group] = max(want[s.Create.Group], p.countCreated(s.Create.Group, asked))
		}
	}
	var out []missing
	for _, group := range slices.Sorted(maps.Keys(want)) {
		if n := want[group] - seen[group]; n > 0 && (len(groups) == 0 || slices.Contains(groups, group)) {
			out = append(out, missing{group, n, want[group]})
		}
	}
	return out
}

// observedClusters tells of a cluster whether its pods were recorded and labels ask for it.
func (p pods) observedClusters(labels map[string]string) func(cluster string) bool {
	recorded := p.sc.PodMembers()
	only, one := labels["cluster"]
	return func(cluster string) bool { return (cluster == "" || recorded[cluster]) && (!one || cluster == only) }
}

// countClusters is how many of those that a step is done in are asked for.
func (p pods) countClusters(cluster string, asked func(string) bool) (n int) {
	names := []string{""}
	if cluster != "" {
		names, _ = p.sc.MembersOf(cluster) // the scenario was checked
	}
	for _, name := range names {
		if asked(name) {
			n++
		}
	}
	return n
}

// countCreated is how many pods of a group the load created by itself, with
// success: none where it creates deployments and the like.
func (p pods) countCreated(group string, asked func(string) bool) (n int) {
	for s := range p.sc.AllSteps() {
		if s.Create == nil || s.Create.Group != group {
			continue
		}
		for _, c := range p.f.Calls {
			if c.Source == run.Load && c.Step == s.Name && c.Verb == "create" && c.Resource == "pods" && c.Subresource == "" && asked(c.Cluster) {
				n += c.Outcomes[record.OK]
			}
		}
	}
	return n
}

// groupsByStep returns those of the objects that steps create, by the steps' names.
func groupsByStep(sc *scenario.Scenario) map[string]string {
	out := map[string]string{}
	for s := range sc.AllSteps() {
		if s.Create != nil {
			out[s.Name] = s.Create.Group
		}
	}
	return out
}

// phaseRank is a phase's place in a pod's lifecycle.
func phaseRank(phase string) int {
	return slices.Index([]string{record.PhaseCreated, record.PhaseBound, record.PhaseRunning, record.PhaseReady,
		record.PhaseFinished, record.PhaseDeleting, record.PhaseDeleted}, phase)
}

// stepBegan reports whether a step was begun.
func (p pods) stepBegan(name string) bool {
	return slices.ContainsFunc(p.f.Events, func(m record.Event) bool {
		return m.Type == record.EventStepBegan && m.Name == name
	})
}

// inState returns the groups of pods that labels ask for; no group stands for
// all of them. It is false where the state asked for is that of no group.
func (p pods) inState(labels map[string]string) (groups []string, some bool) {
	groups = groupsOf(labels)
	state := labels["state"]
	if state == "" {
		return groups, true
	}
	if groups == nil {
		groups = p.f.PodGroups()
	}
	stateful := p.statefulGroups()
	groups = slices.DeleteFunc(groups, func(g string) bool { return stateful[g] != (state == "stateful") })
	return groups, len(groups) > 0
}

// groupsOf returns the group that labels ask for; no group stands for all.
func groupsOf(labels map[string]string) []string {
	if g := labels["group"]; g != "" {
		return []string{g}
	}
	return nil
}

// statefulGroups returns the groups of pods with state of their own: those of steps
// that made StatefulSets or claims on volumes. What a group's pods mount is not
// looked at.
func (p pods) statefulGroups() map[string]bool {
	out := map[string]bool{}
	for s := range p.sc.AllSteps() {
		for _, c := range p.f.Calls {
			if s.Create != nil && c.Step == s.Name && c.Verb == "create" && (c.Resource == "statefulsets.apps" || c.Resource == "persistentvolumeclaims") {
				out[s.Create.Group] = true
			}
		}
	}
	return out
}
