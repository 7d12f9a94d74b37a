// Package skew decides in which order the parts of a plane go from one release to another,
// and holds the releases that meet on the way against the version skew policy of
// Kubernetes (https://kubernetes.io/releases/version-skew-policy/). It starts nothing.
package skew

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/component"
)

// Nodes is the part that consists of the kubelets. The other parts are the components.
const Nodes = "nodes"

// Parts returns the parts in the order of an upgrade. A downgrade has them in reverse.
func Parts() []string {
	return []string{component.Etcd, component.APIServer, component.ControllerManager, component.Scheduler, Nodes}
}

// Version is a release such as v1.36.3. The zero version is an unknown one.
type Version struct{ Major, Minor, Patch int }

var threeNumbers = regexp.MustCompile(`^v?(\d{1,6})\.(\d{1,6})\.(\d{1,6})$`)

// Parse reads a release; false: it is none, or a pre-release.
func Parse(text string) (v Version, ok bool) {
	m := threeNumbers.FindStringSubmatch(text)
	if m == nil {
		return v, false
	}
	for i, to := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*to, _ = strconv.Atoi(m[i+1]) // six digits fit
	}
	return v, true
}

func (v Version) String() string { return fmt.Sprintf("v%d.%d.%d", v.Major, v.Minor, v.Patch) }

func (v Version) compare(to Version) int {
	return slices.Compare([]int{v.Major, v.Minor, v.Patch}, []int{to.Major, to.Minor, to.Patch})
}

// newerBy returns by how many minor releases a release is newer than another; a major
// release is further than any minor one.
func (v Version) newerBy(than Version) int {
	return 1000*(v.Major-than.Major) + v.Minor - than.Minor
}

// State has the release of each part. A part that is not there, or whose release is
// unknown, is left out.
type State map[string]Version

// Change takes parts of a plane to other releases.
type Change struct {
	To    Version // of all parts but etcd
	Etcd  Version // zero: unknown
	Parts []string
}

func (c Change) releaseOf(part string) Version {
	if part == component.Etcd {
		return c.Etcd
	}
	return c.To
}

// Lowers tells a downgrade from an upgrade: by the API servers if they change, otherwise by
// the first part that has another release.
func (c Change) Lowers(now State) bool {
	order := append([]string{component.APIServer}, Parts()...)
	for _, part := range order {
		if from, ok := now[part]; ok && slices.Contains(c.Parts, part) {
			if way := c.releaseOf(part).compare(from); way != 0 && c.releaseOf(part) != (Version{}) {
				return way < 0
			}
		}
	}
	return false
}

// Order returns the parts in the order in which they change.
func (c Change) Order(now State) []string {
	out := slices.DeleteFunc(Parts(), func(part string) bool { return !slices.Contains(c.Parts, part) })
	if c.Lowers(now) {
		slices.Reverse(out)
	}
	return out
}

// After returns the releases after the change.
func (c Change) After(now State) State {
	out := State{}
	maps.Copy(out, now)
	for _, part := range c.Parts {
		if v := c.releaseOf(part); v != (Version{}) {
			out[part] = v
		}
	}
	return out
}

// Violation is a rule of the policy that a change breaks on its way.
type Violation struct {
	Meets string // such as "kubelet v1.37.1 with kube-apiserver v1.36.3"
	Rule  string
	URL   string // where the rule stands
}

func (v Violation) String() string { return v.Meets + ": " + v.Rule + " (" + v.URL + ")" }

// Check returns the rules that a change breaks, each once, in the order in which it does.
// What is broken before is not among them. several tells whether a part has more than one
// process: those run in two releases for a while.
func (c Change) Check(now State, several func(part string) bool) (out []Violation) {
	releases := map[string][]Version{}
	for part, v := range now {
		releases[part] = []Version{v}
	}
	known := map[string]bool{}
	for _, v := range checkMeeting(releases) {
		known[v.Rule] = true
	}
	add := func(all []Violation) {
		for _, v := range all {
			if !known[v.Rule] {
				known[v.Rule] = true
				out = append(out, v)
			}
		}
	}
	for _, part := range c.Order(now) {
		from, to := now[part], c.releaseOf(part)
		if from == (Version{}) || to == (Version{}) {
			continue
		}
		add(checkStep(part, from, to))
		if several(part) {
			releases[part] = []Version{from, to}
			add(checkMeeting(releases))
		}
		releases[part] = []Version{to}
		add(checkMeeting(releases))
	}
	return out
}

const (
	policy = "https://kubernetes.io/releases/version-skew-policy/"
	etcds  = "https://etcd.io/docs/v3.6/upgrades/"
)

// checkStep checks the way of one part.
func checkStep(part string, from, to Version) []Violation {
	far := max(to.newerBy(from), from.newerBy(to)) > 1
	what := fmt.Sprintf("%s from %v to %v", part, from, to)
	switch {
	case far && part == component.APIServer:
		return []Violation{{what, "API servers must not skip a minor release", policy + "#kube-apiserver-1"}}
	case far && part == component.Etcd:
		return []Violation{{what, "etcd must not skip a minor release", etcds}}
	}
	return nil
}

// checkMeeting checks releases that run at the same time: with a balancer each client may
// meet each API server.
func checkMeeting(all map[string][]Version) (out []Violation) {
	for _, server := range all[component.APIServer] {
		for _, other := range all[component.APIServer] {
			if server.newerBy(other) > 1 {
				out = append(out, Violation{
					fmt.Sprintf("%s %v with %v", component.APIServer, server, other),
					"API servers must be within one minor release", policy + "#kube-apiserver",
				})
			}
		}
		for _, client := range []struct {
			part, name, plural string
			older              int
			oldest, anchor     string
		}{
			{component.ControllerManager, component.ControllerManager, "controller managers", 1, "one minor release", "#kube-controller-manager-kube-scheduler-and-cloud-controller-manager"},
			{component.Scheduler, component.Scheduler, "schedulers", 1, "one minor release", "#kube-controller-manager-kube-scheduler-and-cloud-controller-manager"},
			{Nodes, "kubelet", "kubelets", 3, "three minor releases", "#kubelet"},
		} {
			for _, own := range all[client.part] {
				meets := fmt.Sprintf("%s %v with %s %v", client.name, own, component.APIServer, server)
				switch {
				case own.newerBy(server) > 0:
					out = append(out, Violation{meets, client.plural + " must not be newer than any API server", policy + client.anchor})
				case server.newerBy(own) > client.older:
					out = append(out, Violation{meets, client.plural + " may be at most " + client.oldest + " older than any API server", policy + client.anchor})
				}
			}
		}
	}
	return out
}
