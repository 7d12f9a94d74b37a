// Package growth says how CPU, memory and latency grow with a size: from several
// runs of one scenario that were flown with growing numbers of pods, nodes or
// anything else. It says what shape the growth has, how surely, and what it would
// come to beyond what was measured; the last is a projection and called one.
//
// It is pure and flies nothing. Package capacity searches for the load that still
// passes.
package growth

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/stats"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ErrRefused says that runs cannot honestly be fitted together.
var ErrRefused = errors.New("cannot be fitted")

// Options say what is fitted.
type Options struct {
	Against string    // the size: a parameter, nodes, pods, objects, a resource or a measure; empty: the parameter that varies
	Only    []string  // measures whose keys begin so; empty: CPU, memory and latency
	Project []float64 // sizes to project to; empty: twice the largest
	Seed    uint64    // of the bootstrap
}

// Fits is the content of the verb's JSON.
type Fits struct {
	Scenario   string     `json:"scenario"`
	Against    string     `json:"against"`
	Sizes      []float64  `json:"sizes"` // of the runs, ascending
	Runs       []string   `json:"runs"`
	LeftOut    []string   `json:"left_out,omitempty"` // "NAME: why"
	Projected  []float64  `json:"projected"`          // sizes of the projections
	Warnings   []string   `json:"warnings"`           // sentences
	Quantities []Quantity `json:"quantities"`
}

// Quantity is a measure with its growth.
type Quantity struct {
	Key    string        `json:"key"` // as in verdict.json
	Title  string        `json:"title"`
	Unit   string        `json:"unit"`
	Points []stats.Point `json:"points"` // size and value of each run
	// Shape is linear or superlinear where at least Clear of the evidence is for
	// it; constant where no growth stands out from the noise of the runs, and the
	// noise hides none that would come to Hidden times as much at a projected size;
	// else unclear, as where no curve comes near.
	Shape    string             `json:"shape"`
	Evidence map[string]float64 `json:"evidence"` // for each of the three, in all 1
	Model    stats.Model        `json:"model"`    // the one with the most evidence
	// Doubling is by what factor the quantity grows when the size doubles.
	Doubling    Value        `json:"doubling"`
	Projections []Projection `json:"projections"` // none of them was measured; empty where no curve comes near
	Sentence    string       `json:"sentence"`
}

// Value is a number with its 95 % interval.
type Value struct {
	Value    float64    `json:"value"`
	Interval [2]float64 `json:"interval"`
}

// Projection is what a quantity would come to at a size that was not flown.
type Projection struct {
	Size float64 `json:"size"`
	Value
}

// Clear is the share of the evidence from which on a shape is called by its
// name. Hidden is how many times as much a quantity may come to at a projected size,
// by growth that the noise of the runs may hide, and be called constant. Loose is the spread of the points about the
// best curve from which on no curve is said to fit: something gave way.
const (
	Clear  = 0.8
	Hidden = 2
	Loose  = 0.3
)

// The shapes that are told apart.
const (
	Constant    = "constant"
	Linear      = "linear"
	Superlinear = "superlinear"
	Unclear     = "unclear"
)

// far is how many times the largest size is too far for a projection to be
// worth much.
const far = 4

// Fit fits runs. Runs that did not come to their end are left out by name. An
// error wraps ErrRefused and says why nothing can be fitted.
func Fit(runs []compare.Run, o Options) (*Fits, error) {
	f := &Fits{Warnings: []string{}, Quantities: []Quantity{}}
	fit, err := f.admitRuns(runs)
	if err != nil {
		return nil, err
	}
	sizes, err := f.findSizes(fit, o.Against)
	if err != nil {
		return nil, err
	}
	f.warnOfWeakFits(fit)
	project := o.Project
	if len(project) == 0 {
		project = []float64{2 * slices.Max(sizes)}
	}
	for _, size := range project {
		if size <= 0 {
			return nil, fmt.Errorf("%w: no projection to %g %s", ErrRefused, size, f.Against)
		}
		if size > far*slices.Max(sizes) {
			f.addWarning("%g is more than %d times the largest size that was flown: whatever gives way in between is not in the projection.", size, far)
		}
	}
	f.Projected = project
	for _, key := range f.measureKeys(fit, o.Only) {
		q := newQuantity(key, fit, sizes)
		g, ok := stats.Grow(q.Points, o.Seed)
		if !ok {
			f.addWarning("%s is not fitted: its values are not all above 0.", q.Title)
			continue
		}
		q.takeFit(g, project)
		q.Sentence = q.describeGrowth(f.Against)
		f.Quantities = append(f.Quantities, q)
	}
	if len(f.Quantities) == 0 {
		return nil, fmt.Errorf("%w: no measure that is asked for was measured in every run", ErrRefused)
	}
	return f, nil
}

func (f *Fits) addWarning(format string, args ...any) {
	f.Warnings = append(f.Warnings, fmt.Sprintf(format, args...))
}

// admitRuns takes the runs that can be fitted together.
func (f *Fits) admitRuns(runs []compare.Run) ([]compare.Run, error) {
	var out []compare.Run
	for i, r := range runs {
		for _, other := range runs[:i] {
			switch a, b := other.Manifest, r.Manifest; {
			case compare.SameRun(other, r):
				return nil, fmt.Errorf("%s and %s: %w: they are one run", other.Name, r.Name, ErrRefused)
			case a.Scenario != b.Scenario:
				return nil, fmt.Errorf("%s and %s: %w: they are runs of different scenarios, %s and %s", other.Name, r.Name, ErrRefused, a.Scenario, b.Scenario)
			case !compare.SameMachine(other, r):
				return nil, fmt.Errorf("%s and %s: %w: they come from different machines", other.Name, r.Name, ErrRefused)
			case other.Scenario != r.Scenario && b.Imported == "": // those of an import hold their sizes
				return nil, fmt.Errorf("%s and %s: %w: the texts of their scenarios differ; make the size a parameter", other.Name, r.Name, ErrRefused)
			}
		}
		if why := r.Unfit(); why != "" {
			f.LeftOut = append(f.LeftOut, r.Name+": "+why)
			continue
		}
		out = append(out, r)
		f.Runs = append(f.Runs, r.Name)
	}
	if len(out) < stats.MinPoints {
		why := ""
		if len(f.LeftOut) > 0 {
			why = "; left out: " + f.LeftOut[0]
		}
		return nil, fmt.Errorf("%w: %s %s too few, at least %d of %d sizes are needed%s", ErrRefused, unit.Count(len(out), "runs"), unit.Verb(len(out), "is", "are"), stats.MinPoints, stats.MinSizes, why)
	}
	f.Scenario = out[0].Manifest.Scenario
	return out, nil
}

// warnOfWeakFits warns of what casts doubt on the fits.
func (f *Fits) warnOfWeakFits(runs []compare.Run) {
	for _, s := range f.LeftOut {
		f.addWarning("Left out: %s.", s)
	}
	for _, r := range runs {
		if why := r.Warning(); why != "" {
			f.addWarning("%s: %s.", r.Name, why)
		}
	}
	for _, name := range varyingParameters(runs) {
		if name != f.Against {
			f.addWarning("Parameter %s is not the same in all runs: part of the growth may be its.", name)
		}
	}
	for name, v := range runs[0].Manifest.Versions {
		if slices.ContainsFunc(runs, func(r compare.Run) bool { return r.Manifest.Versions[name] != v }) {
			f.addWarning("The version of %s is not the same in all runs.", name)
		}
	}
}

// varyingParameters returns the parameters that are not the same in all runs.
func varyingParameters(runs []compare.Run) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(runs[0].Manifest.Parameters)) {
		for _, r := range runs {
			if fmt.Sprint(r.Manifest.Parameters[name]) != fmt.Sprint(runs[0].Manifest.Parameters[name]) {
				out = append(out, name)
				break
			}
		}
	}
	return out
}

// measureKeys returns the measures that are fitted: those that every run has.
func (f *Fits) measureKeys(runs []compare.Run, only []string) []string {
	have, known := map[string]int{}, map[string]slo.Measure{}
	for _, r := range runs {
		for key, m := range r.Judgement.Measures {
			have[key]++
			known[key] = m
		}
	}
	var out []string
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if !isWanted(key, known[key], only) {
			continue
		}
		if have[key] < len(runs) {
			title, _, _ := compare.Title(key, known[key])
			f.addWarning("%s was not measured in every run, and is not fitted.", title)
			continue
		}
		out = append(out, key)
	}
	return out
}

func isWanted(key string, m slo.Measure, only []string) bool {
	if len(only) > 0 {
		return slo.HasKey(key, only)
	}
	if _, better, judged := compare.Title(key, m); !judged || better == compare.Higher || strings.Contains(key, "_p90_") {
		return false
	}
	return !strings.HasPrefix(key, "cpu_throttled_") && !strings.HasPrefix(key, "cpu_ms_per_pod_")
}

// newQuantity collects a measure's values.
func newQuantity(key string, runs []compare.Run, sizes []float64) Quantity {
	first := runs[0].Judgement.Measures[key]
	title, _, _ := compare.Title(key, first)
	q := Quantity{Key: key, Title: title, Unit: first.Unit}
	for i, r := range runs {
		q.Points = append(q.Points, stats.Point{X: sizes[i], Y: r.Judgement.Measures[key].Value})
	}
	slices.SortStableFunc(q.Points, func(a, b stats.Point) int { return cmp.Compare(a.X, b.X) })
	return q
}

// takeFit takes over what a fit found.
func (q *Quantity) takeFit(g stats.Growth, project []float64) {
	q.Evidence = map[string]float64{
		Constant: g.Evidence(stats.Constant), Linear: g.Evidence(stats.Linear), Superlinear: g.Evidence(stats.Linearithmic, stats.Quadratic),
	}
	q.Model, q.Doubling = g.Best, Value{g.Doubling.Value, g.Doubling.Interval}
	q.Shape = Unclear
	for shape, weight := range q.Evidence {
		if weight >= Clear {
			q.Shape = shape
		}
	}
	if q.Model.Shape == stats.Constant {
		q.Shape = Constant
	}
	q.Projections = []Projection{}
	if q.Model.Spread > Loose {
		q.Shape = Unclear
		return
	}
	for _, size := range project {
		e := g.Project(size)
		q.Projections = append(q.Projections, Projection{size, Value{e.Value, e.Interval}})
		if q.Shape == Constant && e.Interval[1] > Hidden*e.Value {
			q.Shape = Unclear
		}
	}
}
