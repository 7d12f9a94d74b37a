package scenario

import (
	"slices"

	"github.com/windtunnel/windtunnel/internal/component"
)

// faultTarget is what a disturbance can be done to, and how.
type faultTarget struct {
	name    string
	actions []string
}

func faultTargets() []faultTarget {
	return []faultTarget{
		{"component", []string{"kill", "term", "pause", "restart", "slow", "partition", "roll"}},
		{"cluster", []string{"kill", "pause", "restart", "expire", "rollback", "delay", "slow", "cut", "stall"}},
		{"client", []string{"delay", "slow", "cut"}},
		{"nodes", []string{"notready", "silent", "flap", "slow", "skew", "reconnect"}},
		{"pods", []string{"fail", "crash"}},
	}
}

// targetField returns the field that says what is disturbed; empty when it is not
// exactly one.
func (d *Disturbance) targetField() string {
	var all []string
	for _, t := range faultTargets() {
		all = append(all, t.name)
	}
	if set := setFields(d, all...); len(set) == 1 {
		return set[0]
	}
	return ""
}

// disturbanceChecker checks what is broken on purpose.
type disturbanceChecker struct{ *checker }

func (c disturbanceChecker) checkFault(path string, x *Disturbance) {
	target := x.targetField()
	if target == "" {
		c.reportAt(path, "fault: exactly one of component, cluster, client, nodes and pods is needed")
		return
	}
	switch target {
	case "component":
		c.checkProcess(path+".component", x)
	case "cluster":
		memberChecker(c).checkMemberFault(path, x)
	case "client":
		c.checkWord(path+".client", "fault.client", x.Client)
	case "nodes":
		c.checkVictims(path+".nodes", "nodes", x.Nodes)
	case "pods":
		c.checkVictims(path+".pods", "pods", x.Pods)
	}
	for _, t := range faultTargets() {
		if t.name == target && !slices.Contains(t.actions, x.Action) {
			c.checkOneOf(path+".action", "fault.action of "+target, x.Action, t.actions)
			return
		}
	}
	c.checkFields(path, target+" "+x.Action, x)
	c.checkTimes(path, x)
}

// checkProcess checks the name of a process that is disturbed.
func (c disturbanceChecker) checkProcess(path string, x *Disturbance) {
	if x.Action == "roll" {
		c.checkOneOf(path, "fault.component of roll", x.Component, Components())
		return
	}
	if of, _ := component.Of(x.Component); x.Action == "partition" && (c.s.Plane.Count(component.Etcd) == 1 || of != component.Etcd && x.Component != component.Leader(component.Etcd)) {
		c.reportAt(path, "fault.component: partition cuts one of several etcd members from the others, in a plane with plane.etcdMembers of 3 or more: name one of %s",
			joinWords(append(component.Instances(component.Etcd, 3), component.Leader(component.Etcd))))
		return
	}
	all := component.Instances(x.Component, c.s.Plane.Count(x.Component))
	if leaders := c.s.Plane.leaders(); len(all) > 1 {
		if name := component.Leader(x.Component); slices.Contains(leaders, name) {
			all = append(all, name)
		}
		c.reportAt(path, "fault.component: the plane has %d of %s: name one of %s", c.s.Plane.Count(x.Component), x.Component, joinWords(all))
	} else {
		c.checkOneOf(path, "fault.component", x.Component, slices.Concat(c.s.Plane.Processes(), leaders, c.s.subjectNames()))
	}
}

// faultFields checks that those fields are there that an action wants, and no
// others.
func (c disturbanceChecker) checkFields(path, action string, x *Disturbance) {
	target := x.targetField()
	for _, f := range []struct {
		name    string
		set     bool
		ok      bool
		want    string
		actions []string
	}{
		{"roundTrip", x.RoundTrip != 0, x.RoundTrip > 0, "above 0s", []string{"client delay", "cluster delay"}},
		{"factor", x.Factor != 0, x.Factor >= 1 && x.Factor <= 1000, "between 1 and 1000", []string{"client slow", "cluster slow"}},
		{"share", x.Share != 0, x.Share > 0 && x.Share < 1, "above 0 and below 1", []string{"component slow"}},
		{"delay", x.Delay != 0, x.Delay > 0 || action == "nodes skew", "above 0s", []string{"nodes slow", "nodes skew"}},
		{"between", x.Between != 0, x.Between > 0, "above 0s", []string{"nodes flap", "pods fail", "pods crash", "component roll"}},
		{"down", x.Down != 0, x.Down > 0, "above 0s", []string{"nodes flap", "pods crash"}},
	} {
		switch wanted := slices.Contains(f.actions, action); {
		case wanted && !f.set && (target == "pods" || target == "component" && f.name == "between"): // at once; a kubelet's back-off
		case wanted && !f.set:
			c.reportAt(path, "fault.%s: is needed for %s", f.name, action)
		case wanted && !f.ok:
			c.reportAt(path+"."+f.name, "fault.%s: must be %s", f.name, f.want)
		case !wanted && f.set:
			c.reportAt(path+"."+f.name, "fault.%s: belongs to %s, not to %s", f.name, joinWords(f.actions), action)
		}
	}
}

func (c disturbanceChecker) checkTimes(path string, x *Disturbance) {
	switch moment := x.Action == "restart" || x.Action == "roll" || x.Action == "reconnect"; {
	case x.For < 0:
		c.reportAt(path+".for", "fault.for: %s is below 0s", x.For)
	case moment && x.For != 0:
		c.reportAt(path+".for", "fault.for: %s is over in a moment", x.Action)
	case moment && x.Hold:
		c.reportAt(path+".hold", "fault.hold: %s is over in a moment", x.Action)
	case x.Hold && x.For == 0:
		c.reportAt(path, "fault.for: is needed for hold: the step would never end")
	}
}

func (c disturbanceChecker) checkVictims(path, name string, v *Victims) {
	if c.s.Fleet.Nodes == 0 {
		c.reportAt(path, "fault.%s: the scenario has no fleet", name)
	}
	c.checkNotNegative(path+".count", "victims.count", v.Count)
	switch {
	case v.Count == 0 && c.isGiven(path+".count"):
		c.reportAt(path+".count", "victims.count: 0 is not above 0; leave it out for all %s", name)
	case v.Percent < 0 || v.Percent > 100 || v.Percent == 0 && c.isGiven(path+".percent"):
		c.reportAt(path+".percent", "victims.percent: %s is not above 0 and at most 100", formatValue(v.Percent))
	case v.Count != 0 && v.Percent != 0:
		c.reportAt(path, "victims: at most one of count and percent; neither means all")
	}
	c.checkSelector(path+".selector", "victims.selector", v.Selector)
}
