package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Group is a control group that several processes are in, each in a group of its
// own below it: they have its limits together. A nil Group bounds nothing.
type Group struct {
	whose  string // for messages: "the plane"
	limits Limits
	cgroup *Cgroup
}

// NewGroup makes a group of whose, a name for people, with limits. Where the machine
// has both controllers it gets both, so that any process in it can have limits of its
// own. It leaves nothing behind when it fails.
func NewGroup(whose string, limits Limits, reaper *Reaper) (*Group, error) {
	name := groupName(reaper, strings.ReplaceAll(strings.TrimPrefix(whose, "the "), " ", "-"))
	var faults []error
	for _, controllers := range [][]string{{"cpu", "memory"}, limits.neededControllers()} {
		places, err := ownPlaces(controllers)
		if err == nil {
			var made *Cgroup
			if made, err = makeCgroup(name, places, limits, reaper); err == nil {
				if err = made.countTogether(); err == nil {
					return &Group{whose: whose, limits: limits, cgroup: made}, nil
				}
				err = errors.Join(err, made.removeGroup())
			}
		}
		faults = append(faults, err)
	}
	return nil, faults[len(faults)-1] // without what was not asked for
}

// countTogether sees to it that the memory of groups below this one counts here, too:
// kernels before 5.11 want that said in cgroup v1.
func (g *Cgroup) countTogether() error {
	dir, ok := g.foldersByController()["memory"]
	if !ok {
		return nil
	}
	path := filepath.Join(dir, "memory.use_hierarchy")
	if raw, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(raw)) == "1" {
		return nil // v2 always does
	}
	if err := writeExisting(path, "1"); err != nil {
		return fmt.Errorf("let groups share memory: %w", err)
	}
	return nil
}

// childPlaces are where groups below this one are made.
func (g *Group) childPlaces() []place {
	var out []place
	for _, p := range g.cgroup.parts {
		out = append(out, place{version: p.version, controllers: p.controllers, parents: []string{p.dir}})
	}
	return out
}

// canLimit says whether groups below this one can have such limits.
func (g *Group) canLimit(l Limits) error {
	var has []string
	for _, p := range g.cgroup.parts {
		has = append(has, p.controllers...)
	}
	for _, c := range l.neededControllers() {
		if !slices.Contains(has, c) {
			return fmt.Errorf("the control group of %s has no controller %s", g.whose, c)
		}
	}
	return nil
}

// capCores is a limit of cores, or the group's own where that is lower.
func (g *Group) capCores(cores float64) float64 {
	if g == nil || g.limits.CPU == 0 {
		return cores
	}
	return min(cores, g.limits.CPU)
}

// Cgroups returns its folder by controller (cpu, memory).
func (g *Group) Cgroups() map[string]string {
	if g == nil {
		return nil
	}
	return g.cgroup.foldersByController()
}

// Close removes the group, and ends what may still run in it. It is idempotent.
func (g *Group) Close() error {
	if g == nil {
		return nil
	}
	return g.cgroup.removeGroup()
}
