package plan

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Subjects is what the scenario's programs need, as far as they say.
type Subjects struct {
	Bytes       int64            // of memory, all together
	Connections int              // that take ports of this machine, all together
	Most        scenario.Subject // the one with the most open files
}

// subjectsOf adds up what a scenario's subjects need.
func subjectsOf(s *scenario.Scenario) (out Subjects) {
	for _, x := range s.Subjects {
		out.Bytes += int64(x.Needs.Memory)
		out.Connections += x.Needs.Connections
		if x.Needs.OpenFiles > out.Most.Needs.OpenFiles {
			out.Most = x
		}
	}
	return out
}

// hasNeeds tells whether any subject says what it needs.
func (p Subjects) hasNeeds() bool {
	return p.Bytes > 0 || p.Connections > 0 || p.Most.Needs.OpenFiles > 0
}

// String says it in a line.
func (p Subjects) String() string {
	return fmt.Sprintf("about %s of memory, %s in one process at most, %s out", formatSize(p.Bytes), unit.Count(p.Most.Needs.OpenFiles, "open files"), unit.Count(p.Connections, "connections"))
}

// unmetLimits says which limits the subjects do not fit in. With several of them that
// connect from different addresses, or to different ones, each has the machine's
// ports for itself; so each is looked at alone.
func (p Subjects) unmetLimits(s *scenario.Scenario, l Limits) (out []string) {
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if l.Memory > 0 && p.Bytes > int64(l.Memory) {
		add("subjects need about %s of memory, and %s are free: make what they simulate smaller", formatSize(p.Bytes), formatSize(int64(l.Memory)))
	}
	if need := p.Most.Needs.OpenFiles; l.OpenFiles > 0 && uint64(need) > l.OpenFiles {
		add("subject %s needs about %s, and a process may have %d: raise it with ulimit -Hn, or share the work among more subjects", p.Most.Name, unit.Count(need, "open files"), l.OpenFiles)
	}
	for _, x := range s.Subjects {
		if l.Ports > 0 && x.Needs.Connections > l.Ports {
			add("subject %s needs %s from one address to another, and there are %s: widen net.ipv4.ip_local_port_range, or let it connect from several addresses", x.Name, unit.Count(x.Needs.Connections, "connections"), unit.Count(l.Ports, "ports"))
		}
	}
	return out
}
