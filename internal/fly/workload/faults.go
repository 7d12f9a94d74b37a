package workload

import "slices"

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
	for s := range w.Scenario.AllSteps() {
		if s.Fault != nil && s.Fault.Action == "partition" {
			return true
		}
	}
	return false
}

// SlowsAnswers says whether a step makes single answers slower, for which proxies
// must see the calls.
func (w *Workload) SlowsAnswers() bool {
	for s := range w.Scenario.AllSteps() {
		if s.Fault != nil && s.Fault.Client != "" && s.Fault.Action == "slow" {
			return true
		}
	}
	return false
}

// LinksMember tells whether a step breaks the link of a member, which is there for
// that.
func (w *Workload) LinksMember(name string) bool {
	for s := range w.Scenario.AllSteps() {
		if f := s.Fault; f != nil && f.Cluster != "" && slices.Contains([]string{"delay", "slow", "cut", "stall"}, f.Action) {
			if names, err := w.Scenario.MembersOf(f.Cluster); err == nil && slices.Contains(names, name) {
				return true
			}
		}
	}
	return false
}

// SlowsMembers tells whether a step makes single answers of members slower.
func (w *Workload) SlowsMembers() bool {
	for s := range w.Scenario.AllSteps() {
		if s.Fault != nil && s.Fault.Cluster != "" && s.Fault.Action == "slow" {
			return true
		}
	}
	return false
}
