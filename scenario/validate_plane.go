package scenario

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/unit"
)

var (
	kubernetesRelease = regexp.MustCompile(`^v1\.\d{1,3}\.\d{1,3}$`)
	etcdRelease       = regexp.MustCompile(`^v3\.\d{1,3}\.\d{1,3}$`)
)

// maxInstances bounds the processes of one component: etcd advises at most 7 members.
const maxInstances = 9

// checkReleases checks what names the executables of the plane.
func (c fileChecker) checkReleases(p Plane) {
	if p.Release != "" && !kubernetesRelease.MatchString(p.Release) {
		c.reportAt("plane.release", "plane.release: %q is no release of Kubernetes, such as v1.36.3", clipText(p.Release))
	}
	if n, err := strconv.Atoi(p.Etcd); err == nil && (n < 1 || n > maxInstances) {
		c.reportAt("plane.etcd", "plane.etcd: %d is not between 1 and %d", n, maxInstances)
	} else if err == nil {
		c.reportAt("plane.etcd", "plane.etcd: it asks for %s, and plane.etcdMembers for %d: leave out one or the other", unit.Count(n, "members"), p.EtcdMembers)
	} else if p.Etcd != "" && !etcdRelease.MatchString(p.Etcd) {
		c.reportAt("plane.etcd", "plane.etcd: %q is no release of etcd, such as v3.6.12", clipText(p.Etcd))
	}
	if p.Binaries != "" && (p.Release != "" || p.Etcd != "") {
		c.reportAt("plane.binaries", "plane.binaries: it names executables, and so do plane.release and plane.etcd: leave out one or the other")
	}
}

// checkCounts checks how many there are of each component.
func (c fileChecker) checkCounts(p Plane) {
	for _, f := range []struct {
		name  string
		count int
	}{
		{"etcdMembers", p.EtcdMembers},
		{"apiservers", p.APIServers},
		{"schedulers", p.Schedulers},
		{"controllerManagers", p.ControllerManagers},
	} {
		if f.count < 1 || f.count > maxInstances {
			c.reportAt("plane."+f.name, "plane.%s: %d is not between 1 and %d", f.name, f.count, maxInstances)
		}
	}
	if p.APIServers == 1 && p.Balancer != defaultBalancer() {
		c.reportAt("plane.balancer", "plane.balancer: it needs several API servers: set plane.apiservers")
	}
	if p.Balancer.Interval < minInterval {
		c.reportAt("plane.balancer.interval", "balancer.interval: %s is not at least %s", p.Balancer.Interval, minInterval)
	}
	if p.Balancer.Failures < 1 {
		c.reportAt("plane.balancer.failures", "balancer.failures: %d is not above 0", p.Balancer.Failures)
	}
}

func (c fileChecker) checkPlane() {
	p := c.s.Plane
	c.checkWord("plane.durability", "plane.durability", p.Durability)
	c.checkReleases(p)
	c.checkCounts(p)
	c.checkAudit(p)
	c.checkLimits("plane.limits", p.Limits)
	if p.AllowUnsupportedSkew && !slices.ContainsFunc(slices.Collect(c.s.AllSteps()), func(s *Step) bool { return s.Upgrade != nil }) {
		c.reportAt(AllowSkewField, "%s, or --allow-unsupported-skew: it does nothing, since no step is an upgrade", AllowSkewField)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Components)) {
		c.checkComponent(p, name, p.Components[name])
	}
}

// checkAudit refuses flags of the user's that move or thin out the log that plane.audit reads.
func (c fileChecker) checkAudit(p Plane) {
	if !p.Audit {
		return
	}
	for _, name := range p.namesOfComponents() {
		if of, _ := component.Of(name); of != component.APIServer {
			continue
		}
		for _, flag := range slices.Sorted(maps.Keys(p.Components[name].Flags)) {
			word := strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
			if word == "audit-policy-file" || strings.HasPrefix(word, "audit-log-") {
				c.reportAt("plane.components."+name+".flags."+flag, "component.flags: plane.audit sets %s itself: leave out one or the other", word)
			}
		}
	}
}

func (c fileChecker) checkComponent(p Plane, name string, own Component) {
	path := "plane.components." + name
	if all := p.namesOfComponents(); !slices.Contains(all, name) {
		c.reportAt(path, "component %q not found in plane%s", name, c.whyMissing("subject", name, all))
	}
	c.checkCores(path+".cpu", "component.cpu", own.CPU)
	c.checkRunnable(path+".memory", "component.memory", own.Memory)
	if limit := p.Limits.CPU; limit > 0 && own.CPU > limit {
		c.reportAt(path+".cpu", "component.cpu: %s is above plane.limits.cpu, %s", formatValue(own.CPU), formatValue(limit))
	}
	if limit := p.Limits.Memory; limit > 0 && own.Memory > limit {
		c.reportAt(path+".memory", "component.memory: %s is above plane.limits.memory, %s", own.Memory.Human(), limit.Human())
	}
	several := slices.Contains(Components(), name) && p.Count(name) > 1
	for _, flag := range slices.Sorted(maps.Keys(own.Flags)) {
		at := path + ".flags." + flag
		c.flagName(at, "component.flags", flag)
		if several && slices.Contains(ownFlags(), strings.ReplaceAll(flag, "_", "-")) {
			c.reportAt(at, "component.flags: the %d of %s cannot share the flag %s: set it for %s one by one", p.Count(name), name, flag, describeRange(name, p.Count(name)))
		}
	}
}

// ownFlags are those whose value no two processes can share.
func ownFlags() []string {
	return []string{"secure-port", "data-dir", "name", "listen-client-urls", "advertise-client-urls", "listen-peer-urls", "initial-advertise-peer-urls"}
}

// describeRange is "etcd-0 to etcd-2".
func describeRange(name string, count int) string {
	all := component.Instances(name, count)
	return fmt.Sprintf("%s to %s", all[0], all[len(all)-1])
}
