package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// mostMembers bounds a scenario's members: each has a port or a path, a client
// and a row of its own.
const mostMembers = 10_000

// memberChecker checks members, and what is said of them.
type memberChecker struct{ *checker }

func (c memberChecker) members() {
	names, all := []string{}, 0
	for i := range c.s.Members {
		m := &c.s.Members[i]
		path := fmt.Sprintf("members[%d]", i)
		c.group(path, m)
		if slices.Contains(names, m.Name) {
			c.at(path+".name", "members.name: %q stands twice", clip(m.Name))
		}
		names = append(names, m.Name)
		if all += max(0, m.Count); all > mostMembers {
			c.at(path+".count", "members.count: %s are more than %d", unit.Count(all, "members"), mostMembers)
			return
		}
	}
	for i, m := range c.s.Members { // edge-1 may be a group as well as the first of edge
		if g := slices.IndexFunc(c.s.Members, func(o Members) bool { return slices.Contains(o.MemberNames(), m.Name) }); g >= 0 {
			c.at(fmt.Sprintf("members[%d].name", i), "members.name: %q is also the name of a member of %q", m.Name, c.s.Members[g].Name)
		}
	}
	for _, name := range slices.Concat(Components(), c.s.subjectNames()) {
		if c.s.member(name) {
			c.at("members", "members: a member and a component or subject are called %q", name)
		}
	}
}

// group checks one of members.
func (c memberChecker) group(path string, m *Members) {
	c.label(path+".name", "members.name", m.Name)
	if last := m.Name + "-" + strconv.Itoa(m.Count); len(last) > 63 {
		c.at(path+".name", "members.name: %q is longer than 63 characters", last)
	}
	c.notNegative(path+".count", "members.count", m.Count)
	c.word(path+".kind", "members.kind", m.Kind)
	c.word(path+".etcd", "members.etcd", m.Etcd)
	c.word(path+".onDeath", "members.onDeath", m.OnDeath)
	c.notNegativeTime(path+".roundTrip", "members.roundTrip", m.RoundTrip)
	c.labels(path, m)
	c.apis(path, m.APIs)
	for _, flag := range slices.Sorted(maps.Keys(m.Flags)) {
		c.flagName(path+".flags."+flag, "members.flags", flag)
	}
	if m.Kind == HollowMember {
		for _, name := range []string{"apis", "etcd", "flags", "onDeath"} {
			if c.given(path + "." + name) {
				c.at(path+"."+name, "members.%s: belongs to real members", name)
			}
		}
	} else if c.given(path + ".stages") {
		c.at(path+".stages", "members.stages: belongs to hollow members: real ones have fleet.stages")
	}
	if m.Binder && m.Kind != HollowMember {
		c.at(path+".binder", "members.binder: belongs to hollow members: real ones have no scheduler")
	}
	if m.ServiceAccounts && m.Kind != HollowMember {
		c.at(path+".serviceAccounts", "members.serviceAccounts: belongs to hollow members: real ones have no controllers")
	}
	for i, name := range m.Stages {
		if err := checkInside(name); err != nil || name == "" {
			c.at(fmt.Sprintf("%s.stages[%d]", path, i), "members.stages: %q is neither a built-in set nor a file in the scenario's folder", clip(name))
		}
	}
	if m.Fleet != nil {
		c.fleet(path+".fleet", m.Fleet)
	}
	for _, name := range []string{"nodes", "heartbeats"} {
		if m.Kind != HollowMember && c.given(path+"."+name) {
			c.at(path+"."+name, "members.%s: belongs to hollow members: real ones have a fleet", name)
		}
	}
	c.notNegative(path+".nodes", "members.nodes", m.Nodes)
	c.atMost(path+".nodes", "members.nodes", m.Nodes, mostNodes)
	c.notNegativeTime(path+".heartbeats", "members.heartbeats", m.Heartbeats)
}

func (c memberChecker) labels(path string, m *Members) {
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		if value := m.Labels[name]; len(validation.IsQualifiedName(name))+len(validation.IsValidLabelValue(value)) > 0 {
			c.at(path+".labels."+name, "members.labels: %s=%s is not a label that Kubernetes takes", clip(name), clip(value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Spread)) {
		if n := m.Spread[name]; len(validation.IsQualifiedName(name)) > 0 || n < 1 {
			c.at(path+".spread."+name, "members.spread: %s: %d is not a label and a number above 0", clip(name), n)
		}
	}
}

func (c memberChecker) apis(path string, apis []string) {
	version := regexp.MustCompile(`^([a-z0-9][a-z0-9.-]*/)?v[0-9][a-z0-9]*$`)
	for i, api := range apis {
		if api != "all" && !version.MatchString(api) {
			c.at(fmt.Sprintf("%s.apis[%d]", path, i), "members.apis: %q is not GROUP/VERSION, such as apps/v1", clip(api))
		}
		if api == "all" && len(apis) > 1 {
			c.at(fmt.Sprintf("%s.apis[%d]", path, i), "members.apis: all stands alone")
		}
	}
}

// clusterVerbs are the steps that can be done in members.
func clusterVerbs() []string {
	return []string{"create", "scale", "update", "churn", "delete", "requests", "wait", "exec"}
}

// step checks a step's cluster, and notes it for what the step refers to.
func (c memberChecker) step(path string, s *Step) {
	c.cluster = s.Cluster
	if s.Cluster == "" {
		return
	}
	if verbs := s.verbs(); len(verbs) == 1 && !slices.Contains(clusterVerbs(), verbs[0]) {
		c.at(path+".cluster", "step.cluster: belongs to %s, not to %s", all(clusterVerbs()), verbs[0])
		return
	}
	c.names(path+".cluster", "step.cluster", s.Cluster)
}

// names checks that a cluster means at least one member. A group without members
// is one that a parameter has made empty: nothing is done.
func (c memberChecker) names(path, name, cluster string) []string {
	names, err := c.s.MembersOf(cluster)
	groups := c.s.memberGroups()
	switch {
	case err != nil:
		c.at(path, "%s: %v", name, err)
	case len(groups) == 0:
		c.at(path, "%s: the scenario has no members", name)
	case len(names) == 0 && cluster != AllMembers && !slices.Contains(groups, cluster):
		c.at(path, "%s: %q is no member, none of the groups %s, and matches no labels%s", name, clip(cluster), all(groups), hint(cluster, groups))
	}
	return names
}

// within checks that the objects of a create step are in the members in which a
// step is about them.
func (c memberChecker) within(path, name, step string) {
	in := c.made[step]
	switch {
	case in == c.cluster:
	case in == "":
		c.at(path, "%s: create step %q makes its objects on the plane, not in members", name, step)
	case c.cluster == "":
		c.at(path, "%s: create step %q makes its objects in members: the step needs cluster: %s", name, step, strconv.Quote(in))
	default:
		has, _ := c.s.MembersOf(in)          // checked at their own steps
		wants, _ := c.s.MembersOf(c.cluster) // likewise
		for _, member := range wants {
			if !slices.Contains(has, member) {
				c.at(path, "%s: create step %q makes nothing in %s", name, step, member)
				return
			}
		}
	}
}

// fault checks what is done to members.
func (c memberChecker) fault(path string, x *Disturbance) {
	c.names(path+".cluster", "fault.cluster", x.Cluster)
	if hollow := c.firstOf(HollowMember, x.Cluster); hollow != "" && x.Action == "pause" {
		c.at(path+".action", "fault.action: pause is for real members, and %s is hollow: stall its link", hollow)
	}
}

// firstOf is the first member of a kind that a cluster means; empty where there is
// none.
func (c memberChecker) firstOf(kind, cluster string) string {
	if cluster == "" {
		return ""
	}
	names, _ := c.s.MembersOf(cluster) // a faulty one is an error at its own place
	for _, name := range names {
		for i := range c.s.Members {
			if m := &c.s.Members[i]; m.Kind == kind && slices.Contains(m.MemberNames(), name) {
				return name
			}
		}
	}
	return ""
}
