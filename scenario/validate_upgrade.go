package scenario

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/component/skew"
)

// ChangeOf returns what an upgrade step changes.
func (s *Scenario) ChangeOf(u *Upgrade) skew.Change {
	out := skew.Change{Parts: u.Parts}
	out.To, _ = skew.Parse(u.To)
	out.Etcd, _ = skew.Parse(u.Etcd)
	if len(u.Parts) == 0 {
		out.Parts = slices.DeleteFunc(skew.Parts(), func(part string) bool { return part == skew.Nodes && s.Fleet.Nodes == 0 })
	}
	return out
}

// ReleasesOf returns the releases of the plane's parts before the first step, as far as a
// file names them.
func (s *Scenario) ReleasesOf() skew.State {
	out := skew.State{}
	if v, ok := skew.Parse(s.Plane.Etcd); ok {
		out[component.Etcd] = v
	}
	v, ok := skew.Parse(s.Plane.Release)
	for _, part := range s.ChangeOf(&Upgrade{}).Parts {
		if ok && part != component.Etcd {
			out[part] = v
		}
	}
	return out
}

// several tells whether a part has more than one process.
func (s *Scenario) several(part string) bool { return part == skew.Nodes || s.Plane.Count(part) > 1 }

// AllowSkew is the end of a message that refuses an upgrade for its releases.
const AllowSkew = "set allowUnsupportedSkew: true, or run with --allow-unsupported-skew, to upgrade nevertheless"

// AllowSkewField is the field of a file that allows this to all its upgrades.
const AllowSkewField = "plane.allowUnsupportedSkew"

// UnsupportedSkew returns what of the version skew policy an upgrade breaks when the parts
// have these releases; nothing where the step or the plane allows it.
func (s *Scenario) UnsupportedSkew(u *Upgrade, now skew.State) []skew.Violation {
	if u.AllowUnsupportedSkew || s.Plane.AllowUnsupportedSkew {
		return nil
	}
	return s.ChangeOf(u).Check(now, s.several)
}

// upgradeChecker checks steps that take the plane to another release.
type upgradeChecker struct{ *checker }

func (c upgradeChecker) checkUpgrade(path string, u *Upgrade) {
	switch plane := c.s.Plane; {
	case plane.Binaries != "":
		c.reportAt(path, "upgrade: the plane has binaries of its own: name its release by plane.release instead of plane.binaries")
	case plane.Release == "":
		c.reportAt(path, "upgrade: the release to begin with is needed: set plane.release")
	}
	if !kubernetesRelease.MatchString(u.To) {
		c.reportAt(path+".to", "upgrade.to: %q is no release of Kubernetes, such as v1.37.1", clipText(u.To))
	}
	if u.Etcd != "" && !etcdRelease.MatchString(u.Etcd) {
		c.reportAt(path+".etcd", "upgrade.etcd: %q is no release of etcd, such as v3.6.12", clipText(u.Etcd))
	}
	for i, part := range u.Parts {
		at := fmt.Sprintf("%s.parts[%d]", path, i)
		c.checkOneOf(at, "upgrade.parts", part, skew.Parts())
		if slices.Contains(u.Parts[:i], part) {
			c.reportAt(at, "upgrade.parts: %q stands twice", part)
		}
		if part == skew.Nodes && c.s.Fleet.Nodes == 0 {
			c.reportAt(at, "upgrade.parts: nodes: the scenario has no fleet")
		}
	}
	if c.isGiven(path+".parts") && len(u.Parts) == 0 {
		c.reportAt(path+".parts", "upgrade.parts: is empty: leave it out for all parts")
	}
	c.checkNotNegativeTime(path+".hold", "upgrade.hold", u.Hold)
	c.checkNotNegativeTime(path+".between", "upgrade.between", u.Between)
	c.checkPositive(path+".batch", "upgrade.batch", float64(u.Batch))
}

// checkSkew follows the plane's releases through all upgrades, in the order of the file.
func (c upgradeChecker) checkSkew() {
	now := c.s.ReleasesOf()
	for step := range c.s.AllSteps() {
		upgrading := 0
		for i := range step.Parallel {
			for inner := range step.Parallel[i].All() {
				if inner.Upgrade != nil {
					upgrading++
					break
				}
			}
		}
		if upgrading > 1 {
			c.add(step.Line, "step %q: %d of its branches upgrade the plane at the same time: put these steps one after another", step.Name, upgrading)
		}
		if step.Upgrade == nil {
			continue
		}
		broken := c.s.UnsupportedSkew(step.Upgrade, now)
		for _, v := range broken {
			c.add(step.Line, "upgrade: %v; %s", v, AllowSkew)
		}
		if len(broken) == 0 {
			now = c.s.ChangeOf(step.Upgrade).After(now)
		}
	}
}
