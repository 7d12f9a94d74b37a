package plan

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// What members need of the machine. The memory of a real one is measured in
// experiments/0014-members; a hollow one's is the bound that it is held to.
const (
	RealMemberBytes   = 155 << 20 // a kube-apiserver with default APIs, and its part of etcd
	HollowMemberBytes = 1 << 20   // with three clients
	storeBytes        = 60 << 20  // an etcd of members
	memberConnections = 8         // of windtunnel's clients to a member: load, its watches, fleet, lifecycles and their probe, both sides of a link
	memberPorts       = 2         // its own and a link's
)

// Members is how many clusters there are beside the plane, and what they need.
type Members struct {
	Real, Hollow int
	Bytes        int64 // of memory, about
	Ports        int   // to listen at
	OpenFiles    int   // of windtunnel itself
}

// membersOf counts a scenario's members.
func membersOf(s *scenario.Scenario) (out Members) {
	shared := false
	for _, m := range s.Members {
		if m.Kind == scenario.HollowMember {
			out.Hollow += m.Count
			continue
		}
		out.Real += m.Count
		if m.Etcd == "own" {
			out.Bytes += int64(m.Count) * storeBytes
			out.Ports += 2 * m.Count
		} else if m.Count > 0 && !shared {
			shared = true
			out.Bytes += storeBytes
			out.Ports += 2
		}
	}
	all := out.Real + out.Hollow
	out.Bytes += int64(out.Real)*RealMemberBytes + int64(out.Hollow)*HollowMemberBytes
	out.Ports += memberPorts * all
	out.OpenFiles = memberConnections * all
	return out
}

// String says it in a line.
func (m Members) String() string {
	out := fmt.Sprintf("%d real and %d hollow", m.Real, m.Hollow)
	switch {
	case m.Hollow == 0:
		out = fmt.Sprintf("%d real", m.Real)
	case m.Real == 0:
		out = fmt.Sprintf("%d hollow", m.Hollow)
	}
	return fmt.Sprintf("%s: about %s of memory, %s, %s", out, formatSize(m.Bytes), unit.Count(m.Ports, "ports"), unit.Count(m.OpenFiles, "open files"))
}

// unmetLimits says which limits the members do not fit in.
func (m Members) unmetLimits(l Limits) (out []string) {
	if l.Memory > 0 && m.Bytes > int64(l.Memory) {
		out = append(out, fmt.Sprintf("members (%v) need more memory than the %s that are free: make them fewer, or hollow", m, formatSize(int64(l.Memory))))
	}
	if l.Ports > 0 && m.Ports > l.Ports {
		out = append(out, fmt.Sprintf("members (%v) need more ports than the %d that this machine gives out: widen net.ipv4.ip_local_port_range", m, l.Ports))
	}
	return out
}
