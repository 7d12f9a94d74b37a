package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/component/skew"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// IdleBytes is what a process of a component holds before anything is sent, in bytes of
// memory: measured on idle planes of Kubernetes 1.37 with three of each.
func IdleBytes(name string) int64 {
	return map[string]int64{component.Etcd: 104e6, component.APIServer: 288e6, component.Scheduler: 104e6, component.ControllerManager: 131e6}[name]
}

// Processes is what the plane consists of where a component has several processes.
type Processes struct {
	Counts []string // such as "3 of etcd"
	Bytes  int64    // of memory, about, before anything is sent
}

// processesOf counts the processes of a plane; none where there is one of each.
func processesOf(p scenario.Plane) (out Processes) {
	for _, name := range component.Names() {
		n := p.Count(name)
		out.Bytes += int64(n) * IdleBytes(name)
		if n > 1 {
			out.Counts = append(out.Counts, fmt.Sprintf("%d of %s", n, name))
		}
	}
	return out
}

// String says it in a line.
func (p Processes) String() string {
	return fmt.Sprintf("%s: about %s of memory when idle", strings.Join(p.Counts, ", "), formatSize(p.Bytes))
}

// unmetLimits says whether the plane fits in the memory.
func (p Processes) unmetLimits(s *scenario.Scenario, l Limits) (out []string) {
	if len(p.Counts) == 0 {
		return nil
	}
	for _, limit := range []struct {
		bytes int64
		whose string
	}{{int64(l.Memory), "that are free"}, {int64(s.Plane.Limits.Memory), "of plane.limits.memory"}} {
		if limit.bytes > 0 && p.Bytes > limit.bytes {
			out = append(out, fmt.Sprintf("the plane (%v) needs more memory than the %s %s: make its processes fewer", p, unit.Bytes(limit.bytes).Human(), limit.whose))
		}
	}
	return out
}

// estimateUpgrade says in which order an upgrade changes the plane, and how long its pauses
// take at least.
func (e *estimator) estimateUpgrade(u *scenario.Upgrade, one *Step) {
	change := e.s.ChangeOf(u)
	var parts []string
	one.Open = true // until all are ready
	order := change.Order(e.releases)
	for i, part := range order {
		n := e.s.Plane.Count(part)
		text := fmt.Sprintf("%d of %s", n, part)
		if part == skew.Nodes {
			n = ceil(e.s.Fleet.Nodes, max(1, u.Batch))
			text = unit.Count(e.s.Fleet.Nodes, "nodes")
		}
		one.Duration += time.Duration(n-1) * time.Duration(u.Between)
		if i > 0 {
			one.Duration += time.Duration(u.Hold)
		}
		parts = append(parts, text)
	}
	e.out.Upgrades = append(e.out.Upgrades, fmt.Sprintf("step %s to %s: %s", one.Name, u.To, strings.Join(parts, ", then ")))
	e.releases = change.After(e.releases)
}
