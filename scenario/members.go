package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// The kinds of members.
const (
	RealMember   = "real"
	HollowMember = "hollow"
)

// AllMembers is the cluster of a step that means every member.
const AllMembers = "*"

// Members are clusters beside the plane, deleted at the end. A step names the members
// that it acts on in its field cluster.
type Members struct {
	Name            string            `yaml:"name"`            // the members are NAME-1, NAME-2 ...; default: member
	Count           int               `yaml:"count"`           // how many, default 1
	Kind            string            `yaml:"kind"`            // real (default): a kube-apiserver each, without scheduler and controller manager; hollow: in memory, thousands in one process
	Labels          map[string]string `yaml:"labels"`          // labels of each member, such as region
	Spread          map[string]int    `yaml:"spread"`          // labels with a number of values, round-robin: region: 3 gives region-0, region-1, region-2
	RoundTrip       unit.Duration     `yaml:"roundTrip"`       // round-trip time added for every client; for several regions use several groups
	APIs            []string          `yaml:"apis"`            // real members: APIs served in addition to v1, GROUP/VERSION; default: see docs/how-to/clusters.md; [all]: all, as on the plane
	Binder          bool              `yaml:"binder"`          // hollow members: a model binds pods to nodes of the member's fleet; default false: pods come with their node. Real members have no scheduler
	ServiceAccounts bool              `yaml:"serviceAccounts"` // hollow members: a model creates the service account default and kube-root-ca.crt in each namespace; default false. Real members have no controllers
	Etcd            string            `yaml:"etcd"`            // real members: shared (default; one etcd for all members, a prefix each) or own (one each)
	Flags           map[string]string `yaml:"flags"`           // real members: flags of each kube-apiserver, without dashes
	Stages          []string          `yaml:"stages"`          // hollow members: stages of their objects: built-in sets, such as deployments, and files of kwok Stages, relative to the scenario; default none. Real members have the stages of their fleet
	Nodes           int               `yaml:"nodes"`           // hollow members: number of ready nodes at the start, node-000000 and so on, simulated in the member's process at a fraction of the cost of a fleet; default none
	Heartbeats      unit.Duration     `yaml:"heartbeats"`      // hollow members: interval of lease renewals of every node; default never
	Fleet           *Fleet            `yaml:"fleet"`           // simulated nodes in each member, by windtunnel over the network; default none
	Metrics         bool              `yaml:"metrics"`         // scrape /metrics of each member every 5 s, with the label cluster; default false: a real member has some ten thousand series, a hollow one some dozens
	OnDeath         string            `yaml:"onDeath"`         // what happens if a real member dies by itself: continue (default; the run says so) or stop
}

// MemberNames returns the names of the group's members: of a number that is refused, those of
// the largest one.
func (m *Members) MemberNames() []string {
	out := make([]string, min(max(0, m.Count), maxMembers))
	for i := range out {
		out[i] = m.Name + "-" + strconv.Itoa(i+1)
	}
	return out
}

// LabelsOf returns the labels of the i-th member of the group, from 0.
func (m *Members) LabelsOf(i int) map[string]string {
	out := map[string]string{}
	for name, values := range m.Spread {
		short := name[strings.LastIndexByte(name, '/')+1:]
		out[name] = short + "-" + strconv.Itoa(i%max(1, values))
	}
	maps.Copy(out, m.Labels)
	return out
}

// MembersOf returns the names of the members that a step's cluster means, in
// their order: every one (*), those of a group, one by its name, or those whose
// labels a selector such as region=eu matches.
func (s *Scenario) MembersOf(cluster string) ([]string, error) {
	selector, err := memberSelector(cluster)
	if err != nil {
		return nil, err
	}
	var out []string
	for g := range s.Members {
		group := &s.Members[g]
		for i, name := range group.MemberNames() {
			switch {
			case cluster == AllMembers, cluster == name, cluster == group.Name:
			case selector != nil && selector.Matches(labels.Set(group.LabelsOf(i))):
			default:
				continue
			}
			out = append(out, name)
		}
	}
	return out, nil
}

// memberSelector returns the selector that a step's cluster is; nil where it is a
// name.
func memberSelector(cluster string) (labels.Selector, error) {
	if !strings.ContainsAny(cluster, "=!,( ") {
		return nil, nil
	}
	selector, err := labels.Parse(cluster)
	if err != nil {
		return nil, fmt.Errorf("%q is not a label selector: %w", clipText(cluster), err)
	}
	return selector, nil
}

// memberGroups are the names of the groups.
func (s *Scenario) memberGroups() (out []string) {
	for _, m := range s.Members {
		out = append(out, m.Name)
	}
	return out
}

// hasMember tells whether there is one of that name.
func (s *Scenario) hasMember(name string) bool {
	return slices.ContainsFunc(s.Members, func(m Members) bool { return slices.Contains(m.MemberNames(), name) })
}
