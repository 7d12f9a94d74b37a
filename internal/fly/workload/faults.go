package workload

import (
	"slices"

	"github.com/windtunnel/windtunnel/scenario"
)

// DisturbedClients names whose connections lead through a proxy, because a step
// disturbs them.
func (w *Workload) DisturbedClients() []string {
	var out []string
	for s := range w.Scenario.AllSteps() {
		if s.Fault != nil && s.Fault.Client != "" && !slices.Contains(out, s.Fault.Client) {
			out = append(out, s.Fault.Client)
		}
	}
	return out
}

// CutsMembers tells whether a step cuts an etcd member from the others, for which proxies must
// stand between them.
func (w *Workload) CutsMembers() bool {
	return w.hasFault(func(f *scenario.Disturbance) bool { return f.Action == "partition" })
}

// SlowsAnswers says whether a step makes single answers slower, for which proxies
// must see the calls.
func (w *Workload) SlowsAnswers() bool {
	return w.hasFault(func(f *scenario.Disturbance) bool { return f.Client != "" && f.Action == "slow" })
}

// LinksMember tells whether a step breaks the link of a member, which is there for
// that.
func (w *Workload) LinksMember(name string) bool {
	return w.hasFault(func(f *scenario.Disturbance) bool {
		if f.Cluster == "" || !slices.Contains([]string{"delay", "slow", "cut", "stall"}, f.Action) {
			return false
		}
		names, err := w.Scenario.MembersOf(f.Cluster)
		return err == nil && slices.Contains(names, name)
	})
}

// SlowsMembers tells whether a step makes single answers of members slower.
func (w *Workload) SlowsMembers() bool {
	return w.hasFault(func(f *scenario.Disturbance) bool { return f.Cluster != "" && f.Action == "slow" })
}

// hasFault tells whether a step has such a fault.
func (w *Workload) hasFault(is func(*scenario.Disturbance) bool) bool {
	for s := range w.Scenario.AllSteps() {
		if s.Fault != nil && is(s.Fault) {
			return true
		}
	}
	return false
}
