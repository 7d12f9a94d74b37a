package slo

import (
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/stats"
)

// The other writers of results (package perfdata) ask the same facts in the
// same way as the verdict does.

// PodGroups returns the names of the groups whose pods were seen, sorted.
func (f *Facts) PodGroups() []string {
	var out []string
	for _, l := range f.pods(nil) {
		out = append(out, l.Group)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Between returns how long the pods of some groups took from one phase to a
// later one; all groups when there are none. A pod that did not get there took
// longer than until the run's end.
func (f *Facts) Between(groups []string, from, to string) *stats.Durations {
	d := &stats.Durations{}
	for _, l := range f.pods(groups) {
		l.durations(d, from, to, f)
	}
	return d
}

// BoundRates returns how many pods of some groups were bound per second in each
// stretch of time, smallest first; all groups when there are none.
func (f *Facts) BoundRates(groups []string, window time.Duration) []float64 {
	return boundRates(f.pods(groups), window)
}

// Key returns the key under which a named number stands in the verdict's
// measures, such as "filling_seconds" for the parts "Filling" and "seconds".
func Key(parts ...string) string { return key(parts...) }
