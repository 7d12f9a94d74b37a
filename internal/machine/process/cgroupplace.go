package process

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// place is where control groups for some controllers can be made.
type place struct {
	version     int
	controllers []string
	parents     []string // folders to try, the own group first
}

// mount is a mounted control group hierarchy.
type mount struct {
	version     int
	controllers []string // v1
	root        string   // the group that is seen at point
	point       string
}

// parseOwn reads /proc/PID/cgroup: controller -> own group; the key of the v2
// hierarchy is empty.
func parseOwn(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimRight(line, "\n"), ":", 3)
		if len(f) != 3 {
			continue
		}
		for _, controller := range strings.Split(f[1], ",") {
			out[controller] = f[2]
		}
	}
	return out
}

// parseMounts reads the hierarchies from /proc/PID/mountinfo.
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 5 || len(r) < 3 {
			continue
		}
		m := mount{root: unescapeMount(l[3]), point: unescapeMount(l[4])}
		switch r[0] {
		case "cgroup":
			m.version, m.controllers = 1, strings.Split(r[2], ",")
		case "cgroup2":
			m.version = 2
		default:
			continue
		}
		out = append(out, m)
	}
	return out
}

// unescapeMount undoes the kernel's octal escapes in mountinfo.
func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// placesFor finds for each controller the hierarchy that has it: v1 where it is
// mounted so, else v2. Controllers of one hierarchy share a place.
func placesFor(own map[string]string, mounts []mount, controllers []string) ([]place, error) {
	var out []place
	for _, c := range controllers {
		m, group, ok := hierarchyOf(c, own, mounts)
		if !ok {
			return nil, fmt.Errorf("no control group hierarchy with the controller %s is mounted", c)
		}
		p := place{version: m.version, controllers: []string{c}, parents: parentsOf(m, group)}
		same := func(q place) bool { return q.version == p.version && q.parents[0] == p.parents[0] }
		if i := slices.IndexFunc(out, same); i >= 0 {
			out[i].controllers = append(out[i].controllers, c)
			continue
		}
		out = append(out, p)
	}
	return out, nil
}

func hierarchyOf(controller string, own map[string]string, mounts []mount) (mount, string, bool) {
	for _, m := range mounts {
		if group, ok := own[controller]; ok && m.version == 1 && slices.Contains(m.controllers, controller) {
			return m, group, true
		}
	}
	for _, m := range mounts {
		if group, ok := own[""]; ok && m.version == 2 {
			return m, group, true
		}
	}
	return mount{}, "", false
}

// parentsOf returns the folder of the own group and, for v2, those above it:
// there a group that holds processes cannot have groups with limits below it,
// so a sibling has to do.
func parentsOf(m mount, group string) []string {
	rel := group
	switch {
	case m.root == "/" || m.root == "":
	case group == m.root || strings.HasPrefix(group, m.root+"/"):
		rel = strings.TrimPrefix(group, m.root)
	default: // seen from another namespace: the mount's own top is all there is
		rel = "/"
	}
	if strings.HasPrefix(rel, "/..") {
		rel = "/"
	}
	out := []string{path.Join(m.point, rel)}
	for m.version == 2 && path.Clean(rel) != "/" && rel != "" {
		rel = path.Dir(rel)
		out = append(out, path.Join(m.point, rel))
	}
	return out
}
