package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/util/validation"
)

// maxMembers bounds a scenario's members: each has a port or a path, a client
// and a row of its own.
const maxMembers = 10_000

// memberChecker checks members, and what is said of them.
type memberChecker struct{ *checker }

func (c memberChecker) checkMembers() {
	names, all := []string{}, 0
	for i := range c.s.Members {
		m := &c.s.Members[i]
		path := fmt.Sprintf("members[%d]", i)
		c.checkMemberGroup(path, m)
		if slices.Contains(names, m.Name) {
			c.reportAt(path+".name", "members.name: %q stands twice", clipText(m.Name))
		}
		names = append(names, m.Name)
		if all += min(max(0, m.Count), maxMembers+1); all > maxMembers {
			c.reportAt(path+".count", "members.count: more than %d members in all", maxMembers)
			return
		}
	}
	for i, m := range c.s.Members { // edge-1 may be a group as well as the first of edge
		if g := slices.IndexFunc(c.s.Members, func(o Members) bool { return slices.Contains(o.MemberNames(), m.Name) }); g >= 0 {
			c.reportAt(fmt.Sprintf("members[%d].name", i), "members.name: %q is also the name of a member of %q", m.Name, c.s.Members[g].Name)
		}
	}
	for _, name := range slices.Concat(c.s.Plane.namesOfComponents(), c.s.subjectNames()) {
		if c.s.hasMember(name) {
			c.reportAt("members", "members: a member and a component or subject are called %q", name)
		}
	}
}

// checkMemberGroup checks one of members.
func (c memberChecker) checkMemberGroup(path string, m *Members) {
	c.checkLabel(path+".name", "members.name", m.Name)
	if last := m.Name + "-" + strconv.Itoa(m.Count); len(last) > 63 {
		c.reportAt(path+".name", "members.name: %q is longer than 63 characters", last)
	}
	c.checkNotNegative(path+".count", "members.count", m.Count)
	c.checkWord(path+".kind", "members.kind", m.Kind)
	c.checkWord(path+".etcd", "members.etcd", m.Etcd)
	c.checkWord(path+".onDeath", "members.onDeath", m.OnDeath)
	c.checkNotNegativeTime(path+".roundTrip", "members.roundTrip", m.RoundTrip)
	c.checkLabels(path, m)
	c.checkAPIs(path, m.APIs)
	for _, flag := range slices.Sorted(maps.Keys(m.Flags)) {
		c.flagName(path+".flags."+flag, "members.flags", flag)
	}
	if m.Kind == HollowMember {
		for _, name := range []string{"apis", "etcd", "flags", "onDeath"} {
			if c.isGiven(path + "." + name) {
				c.reportAt(path+"."+name, "members.%s: belongs to real members", name)
			}
		}
	} else if c.isGiven(path + ".stages") {
		c.reportAt(path+".stages", "members.stages: belongs to hollow members: real ones have fleet.stages")
	}
	if m.Binder && m.Kind != HollowMember {
		c.reportAt(path+".binder", "members.binder: belongs to hollow members: real ones have no scheduler")
	}
	if m.ServiceAccounts && m.Kind != HollowMember {
		c.reportAt(path+".serviceAccounts", "members.serviceAccounts: belongs to hollow members: real ones have no controllers")
	}
	for i, name := range m.Stages {
		if err := checkInside(name); err != nil || name == "" {
			c.reportAt(fmt.Sprintf("%s.stages[%d]", path, i), "members.stages: %q is neither a built-in set nor a file in the scenario's folder", clipText(name))
		}
	}
	if m.Fleet != nil {
		c.checkFleet(path+".fleet", m.Fleet)
	}
	for _, name := range []string{"nodes", "heartbeats"} {
		if m.Kind != HollowMember && c.isGiven(path+"."+name) {
			c.reportAt(path+"."+name, "members.%s: belongs to hollow members: real ones have a fleet", name)
		}
	}
	c.checkNotNegative(path+".nodes", "members.nodes", m.Nodes)
	c.checkAtMost(path+".nodes", "members.nodes", m.Nodes, maxNodes)
	c.checkInterval(path+".heartbeats", "members.heartbeats", m.Heartbeats)
}

func (c memberChecker) checkLabels(path string, m *Members) {
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		if value := m.Labels[name]; len(validation.IsQualifiedName(name))+len(validation.IsValidLabelValue(value)) > 0 {
			c.reportAt(path+".labels."+name, "members.labels: %s=%s is not a label that Kubernetes takes", clipText(name), clipText(value))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Spread)) {
		if n := m.Spread[name]; len(validation.IsQualifiedName(name)) > 0 || n < 1 || n > maxNodes {
			c.reportAt(path+".spread."+name, "members.spread: %s: %d is not a label and a number above 0", clipText(name), n)
		}
	}
}

func (c memberChecker) checkAPIs(path string, apis []string) {
	version := regexp.MustCompile(`^([a-z0-9][a-z0-9.-]*/)?v[0-9][a-z0-9]*$`)
	for i, api := range apis {
		if api != "all" && !version.MatchString(api) {
			c.reportAt(fmt.Sprintf("%s.apis[%d]", path, i), "members.apis: %q is not GROUP/VERSION, such as apps/v1", clipText(api))
		}
		if api == "all" && len(apis) > 1 {
			c.reportAt(fmt.Sprintf("%s.apis[%d]", path, i), "members.apis: all stands alone")
		}
	}
}

// clusterVerbs are the steps that can be done in members.
func clusterVerbs() []string {
	return []string{"create", "scale", "update", "churn", "delete", "requests", "wait", "exec"}
}

// checkStepCluster checks a step's cluster, and notes it for what the step refers to.
func (c memberChecker) checkStepCluster(path string, s *Step) {
	c.cluster = s.Cluster
	if s.Cluster == "" {
		return
	}
	if verbs := s.setVerbs(); len(verbs) == 1 && !slices.Contains(clusterVerbs(), verbs[0]) {
		c.reportAt(path+".cluster", "step.cluster: belongs to %s, not to %s", joinWords(clusterVerbs()), verbs[0])
		return
	}
	c.checkCluster(path+".cluster", "step.cluster", s.Cluster)
}

// checkCluster checks that a cluster means at least one member: what is to be done in none of
// them would pass without being done.
func (c memberChecker) checkCluster(path, name, cluster string) []string {
	hint := ""
	if name == "step.cluster" {
		hint = "; a repeat with times: 0 leaves its steps out"
	}
	names, err := c.s.MembersOf(cluster)
	groups := c.s.memberGroups()
	switch {
	case err != nil:
		c.reportAt(path, "%s: %v", name, err)
	case len(groups) == 0:
		c.reportAt(path, "%s: the scenario has no members", name)
	case len(names) == 0 && (cluster == AllMembers || slices.Contains(groups, cluster)):
		c.reportAt(path, "%s: there is no member of %s, since members.count is 0%s", name, strconv.Quote(cluster), hint)
	case len(names) == 0:
		c.reportAt(path, "%s: %q is no member, none of the groups %s, and matches no labels%s", name, clipText(cluster), joinWords(groups), suggestName(cluster, groups))
	}
	return names
}

// checkMadeWithin checks that the objects of a create step are in the members in which a
// step is about them.
func (c memberChecker) checkMadeWithin(path, name, step string) {
	in := c.membersOfStep[step]
	switch {
	case in == c.cluster:
	case in == "":
		c.reportAt(path, "%s: create step %q makes its objects on the plane, not in members", name, step)
	case c.cluster == "":
		c.reportAt(path, "%s: create step %q makes its objects in members: the step needs cluster: %s", name, step, strconv.Quote(in))
	default:
		has, _ := c.s.MembersOf(in)          // checked at their own steps
		wants, _ := c.s.MembersOf(c.cluster) // likewise
		for _, member := range wants {
			if !slices.Contains(has, member) {
				c.reportAt(path, "%s: create step %q makes nothing in %s", name, step, member)
				return
			}
		}
	}
}

// checkMemberFault checks what is done to members.
func (c memberChecker) checkMemberFault(path string, x *Disturbance) {
	c.checkCluster(path+".cluster", "fault.cluster", x.Cluster)
	if hollow := c.firstOf(HollowMember, x.Cluster); hollow != "" && x.Action == "pause" {
		c.reportAt(path+".action", "fault.action: pause is for real members, and %s is hollow: stall its link", hollow)
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
