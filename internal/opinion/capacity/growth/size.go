package growth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// findSizes finds each run's size and sets what it is called.
func (f *Fits) findSizes(runs []compare.Run, against string) ([]float64, error) {
	if against == "" {
		vary := varyingParameters(runs)
		if len(vary) != 1 {
			return nil, fmt.Errorf("%w: %s vary%s: say against which", ErrRefused, unit.Count(len(vary), "parameters"), sizeName(vary))
		}
		against = vary[0]
	}
	f.Against = against
	var out []float64
	for _, r := range runs {
		v, ok := sizeOf(r, against)
		if !ok {
			return nil, fmt.Errorf("%w: %s has no size %q: want a parameter, nodes, pods, objects, a resource such as deployments.apps or a measure", ErrRefused, r.Name, against)
		}
		if v <= 0 {
			return nil, fmt.Errorf("%w: %s has %g %s", ErrRefused, r.Name, v, against)
		}
		out = append(out, v)
	}
	f.Sizes = slices.Sorted(slices.Values(out))
	if n := len(slices.Compact(slices.Clone(f.Sizes))); n < stats.MinSizes {
		return nil, fmt.Errorf("%w: %d different %s are too few, at least %d are needed", ErrRefused, n, against, stats.MinSizes)
	}
	return out, nil
}

func sizeName(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// sizeOf is a run's parameter of that name, or how many of something it had.
func sizeOf(r compare.Run, against string) (float64, bool) {
	switch v := r.Manifest.Parameters[against].(type) {
	case float64:
		return v, true
	case int64: // of a run that was not read from a file
		return float64(v), true
	}
	switch against {
	case "nodes":
		return float64(r.Manifest.Fleet.Nodes), true
	case "objects":
		return createdIn(r, func(string) bool { return true })
	case "apps":
		return createdIn(r, func(resource string) bool { return strings.HasSuffix(resource, ".apps") })
	}
	if v, ok := createdIn(r, func(resource string) bool { return resource == against }); ok {
		return v, true
	}
	m, ok := r.Judgement.Measures[against]
	if !ok {
		m, ok = r.Judgement.Measures[slo.CurrentKey(against)]
	}
	return m.Value, ok
}

// createdIn counts the objects of some resources that a run created or saw being created.
func createdIn(r compare.Run, of func(resource string) bool) (n float64, known bool) {
	if r.Facts == nil {
		return 0, false
	}
	for _, c := range r.Facts.Counters {
		if resource, ok := strings.CutPrefix(c.Name, "created: "); ok && of(resource) {
			n, known = n+c.Value, true
		}
	}
	return n, known
}
