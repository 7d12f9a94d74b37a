package scrape

import (
	"slices"
	"strings"
)

// processFamilies are what a process says of itself; see Target.Process.
func processFamilies() []string {
	return []string{"process_cpu_seconds_total", "process_resident_memory_bytes"}
}

// newAcceptor returns a test for the names of points to keep.
func newAcceptor(o Options, process bool) func(name string) bool {
	keep, drop := newFilter(o.Keep), newFilter(o.Drop)
	usage := newFilter(processFamilies())
	return func(name string) bool {
		if usage.hasName(name) {
			return process && !drop.hasName(name)
		}
		return (len(o.Keep) == 0 || keep.hasName(name)) && !drop.hasName(name)
	}
}

// filter holds names of families.
type filter struct {
	exact    map[string]bool // names of points
	prefixes []string
}

func newFilter(families []string) filter {
	f := filter{exact: map[string]bool{}}
	for _, family := range families {
		if p, ok := strings.CutSuffix(family, "*"); ok {
			f.prefixes = append(f.prefixes, p)
			continue
		}
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			f.exact[family+suffix] = true
		}
	}
	return f
}

// hasName says whether a point is one of the families: of their own name, or of one
// that points of a histogram have.
func (f filter) hasName(name string) bool {
	return f.exact[name] || slices.ContainsFunc(f.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}
