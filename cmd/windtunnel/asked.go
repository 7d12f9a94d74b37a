package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// askedDifferences names the facts of a manifest that differ because two arms of a
// scenario were asked for: the parameter itself, those whose defaults are made
// of it, and the flags, limits and sizes that it stands in. Everything else that
// differs was not asked for.
func askedDifferences(a, b *scenario.Scenario) []string {
	var out []string
	appendDifferent(&out, "parameter ", a.Values, b.Values)
	out = append(out, unlikePlaneLimits(a.Plane.Limits, b.Plane.Limits)...)
	names := maps.Clone(a.Plane.Components)
	if names == nil {
		names = map[string]scenario.Component{}
	}
	maps.Copy(names, b.Plane.Components)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		x, y := a.Plane.Components[name], b.Plane.Components[name]
		appendDifferent(&out, name+" --", x.Flags, y.Flags)
		appendDifferent(&out, name+" ", x.Env, y.Env)
		out = append(out, unlikeLimits(name, scenario.Limits{CPU: x.CPU, Memory: x.Memory}, scenario.Limits{CPU: y.CPU, Memory: y.Memory})...)
	}
	out = append(out, askedOfSubjects(a.Subjects, b.Subjects)...)
	out = append(out, factsIfDifferent(a.Plane.Durability, b.Plane.Durability, "plane durability", "plane data on", "etcd --unsafe-no-fsync")...)
	out = append(out, factsIfDifferent(a.Plane.Binaries, b.Plane.Binaries, "plane kind", "version kubernetes", "version etcd")...)
	out = append(out, factsIfDifferent(a.Plane.Release, b.Plane.Release, "version kubernetes", "version etcd")...)
	out = append(out, factsIfDifferent(a.Plane.Etcd, b.Plane.Etcd, "version etcd")...)
	out = append(out, factsIfDifferent(a.Fleet.Nodes, b.Fleet.Nodes, "fleet nodes")...)
	out = append(out, factsIfDifferent(a.Fleet.Lease, b.Fleet.Lease, "fleet lease", "fleet renews every", "fleet heartbeat stretched")...)
	out = append(out, factsIfDifferent(a.Fleet.Status, b.Fleet.Status, "fleet posts conditions every")...)
	slices.Sort(out)
	return slices.Compact(out)
}

// askedOfSubjects names what differs of the programs that are tested in both arms.
func askedOfSubjects(a, b []scenario.Subject) (out []string) {
	for _, x := range a {
		i := slices.IndexFunc(b, func(y scenario.Subject) bool { return y.Name == x.Name })
		if i < 0 {
			continue
		}
		y := b[i]
		appendDifferent(&out, x.Name+" ", argumentsByName(x), argumentsByName(y))
		appendDifferent(&out, x.Name+" ", x.Env, y.Env)
		out = append(out, unlikeLimits(x.Name, x.Limits, y.Limits)...)
	}
	return out
}

// unlikePlaneLimits names what differs because the limits of the plane as a whole do:
// also how many threads its components are told to run.
func unlikePlaneLimits(a, b scenario.Limits) []string {
	out := append(unlikeLimits(record.WholePlane, a, b), factsIfDifferent(a == scenario.Limits{}, b == scenario.Limits{}, record.WholePlane+" runs")...)
	for _, name := range scenario.Components() {
		out = append(out, factsIfDifferent(a.CPU, b.CPU, name+" GOMAXPROCS")...)
	}
	return out
}

// unlikeLimits names the limits of a process that differ.
func unlikeLimits(name string, a, b scenario.Limits) []string {
	return slices.Concat(factsIfDifferent(a.CPU, b.CPU, name+" cpu limit", name+" limits in force"),
		factsIfDifferent(a.Memory, b.Memory, name+" memory limit", name+" limits in force"))
}

// argumentsByName are a program's, by what stands before their =.
func argumentsByName(s scenario.Subject) map[string]string {
	out := map[string]string{}
	for _, arg := range slices.Concat(s.Windtunnel, s.Args) {
		name, value, _ := strings.Cut(arg, "=")
		out[name] += " " + value
	}
	return out
}

// appendDifferent adds the keys whose values are not the same in two maps.
func appendDifferent[V any](out *[]string, prefix string, a, b map[string]V) {
	for key, x := range a {
		if y, ok := b[key]; !ok || !reflect.DeepEqual(x, y) {
			*out = append(*out, prefix+key)
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok {
			*out = append(*out, prefix+key)
		}
	}
}

// factsIfDifferent returns facts if two values differ.
func factsIfDifferent[V comparable](a, b V, facts ...string) []string {
	if a == b {
		return nil
	}
	return facts
}
