package publish

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/publish/redact"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Results is the content of results.json: what follows from the runs.
type Results struct {
	Scenario string        `json:"scenario"`
	Rules    int           `json:"run_rules"` // version
	Level    string        `json:"level"`
	Checked  []Rule        `json:"rules"`
	Claims   []ClaimResult `json:"claims"`
	Runs     []RunLine     `json:"runs"`
	LeftOut  []LeftOut     `json:"left_out"`
	Missing  []string      `json:"missing"` // runs that are mentioned and not there
	// Executables of the runs; none of a bundle of format 1.
	Executables []Executable     `json:"executables,omitempty"`
	Settings    []Setting        `json:"settings"`
	Machines    []record.Machine `json:"machines"`
	Real        []string         `json:"real"`
	Modeled     []string         `json:"modeled"`
	Removed     []redact.Removed `json:"removed"`
}

// RunLine is one run.
type RunLine struct {
	Name       string         `json:"name"`
	Side       string         `json:"side"`
	Started    time.Time      `json:"started"`
	Seed       uint64         `json:"seed"`
	Parameters map[string]any `json:"parameters"`
	Verdict    slo.Verdict    `json:"verdict"`
	EndedEarly string         `json:"ended_early,omitempty"` // why
	Seconds    float64        `json:"seconds"`
	Others     *float64       `json:"others_share"` // of the machine's CPU; nil: not measured
	Steal      *float64       `json:"steal_share"`
}

// Setting is something that is not as it is by default.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default string `json:"default"`
}

// built is what follows from the files of a bundle.
type built struct {
	measured measured
	claims   []Claim
	results  Results
	files    map[string][]byte // that are computed
}

// judgingGC is as that of package judge: what is alive are lists of numbers.
const judgingGC = 25

// build computes everything that a bundle says from what is in its folder: the index, the
// claims and the runs.
func build(ctx context.Context, dir record.Dir, x *Index) (*built, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(judgingGC))
	out := &built{files: map[string][]byte{}}
	m, all, err := out.judgeSides(ctx, dir, &x.Experiment, ComparisonFile)
	if err != nil {
		return nil, err
	}
	r := rules{measured: m, all: slices.Concat(all...), missing: x.Experiment.missing()}
	if x.Control != nil {
		control, flown, err := out.judgeSides(ctx, dir, x.Control, ControlFile)
		if err != nil {
			return nil, err
		}
		r.control, r.flown = control.comparison, slices.Concat(flown...)
		for _, name := range x.Control.missing() {
			r.missing = append(r.missing, controlFolder+"/"+name)
		}
	}
	raw, err := dir.Read(ClaimsFile)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrClaims, err)
	}
	if out.claims, err = readClaims(raw); err != nil {
		return nil, err
	}
	out.measured = m
	if r.claims, err = m.checkClaims(out.claims); err != nil {
		return nil, err
	}
	if err := out.setResults(dir, x, r, all); err != nil {
		return nil, err
	}
	if out.files[ResultsFile], err = encodeFile(out.results); err != nil {
		return nil, err
	}
	out.files[ReportFile] = []byte(writeReport(&out.results, x))
	return out, nil
}

// judgeSides judges every run of an experiment and compares its sides.
func (b *built) judgeSides(ctx context.Context, dir record.Dir, e *Experiment, file string) (m measured, all [][]compare.Run, err error) {
	for _, side := range e.Sides {
		var runs []compare.Run
		for _, name := range side.Runs {
			if ctx.Err() != nil {
				return m, nil, context.Cause(ctx)
			}
			r, err := b.judgeRun(dir, name)
			if err != nil {
				return m, nil, err
			}
			runs = append(runs, r)
		}
		all = append(all, runs)
		m.sides = append(m.sides, slices.DeleteFunc(slices.Clone(runs), func(r compare.Run) bool { return r.Unfit() != "" }))
	}
	if len(all) == 2 {
		m.comparison, err = compare.Compare(all[0], all[1], compare.Options{
			NameA: e.Sides[0].Name, NameB: e.Sides[1].Name, Asked: e.Asked, FailAbove: e.FailAbove, Seed: e.Seed, Notes: e.Notes,
		})
		if err != nil {
			return m, nil, err
		}
		b.files[file], err = encodeFile(m.comparison)
	}
	return m, all, err
}

// runError says that a run cannot be judged.
type runError struct {
	run string
	err error
}

func (e *runError) Error() string { return fmt.Sprintf("%s: %v", e.run, e.err) }

func (e *runError) Unwrap() error { return e.err }

func (b *built) judgeRun(dir record.Dir, name string) (compare.Run, error) {
	r, err := run.Open(dir.File(name))
	if err != nil {
		return compare.Run{}, &runError{name, err}
	}
	j, err := slo.Judge(r)
	if err != nil {
		return compare.Run{}, &runError{name, err}
	}
	b.files[path.Join(name, record.VerdictFile)], err = encodeFile(j)
	return compare.Of(name, r, j), err
}

func (b *built) setResults(dir record.Dir, x *Index, r rules, all [][]compare.Run) error {
	var removed removedList
	if err := readJSON(dir, RemovedFile, &removed); err != nil {
		return err
	}
	out := Results{
		Scenario: r.all[0].Manifest.Scenario, Rules: rulesVersion, Claims: r.claims, Removed: removed.Removed,
		LeftOut: append([]LeftOut{}, x.Experiment.LeftOut...), Missing: append([]string{}, r.missing...), Settings: []Setting{}, Real: []string{}, Modeled: []string{},
	}
	out.Checked, out.Level = r.check()
	var err error
	if out.Executables, err = checkComponents(dir, x, slices.Concat(r.all, r.flown)); err != nil {
		return err
	}
	for i, side := range all {
		for _, run := range side {
			out.Runs = append(out.Runs, newLine(run, sideLetter(i)))
		}
	}
	for _, run := range r.flown {
		out.Runs = append(out.Runs, newLine(run, "control"))
	}
	for _, run := range slices.Concat(r.all, r.flown) {
		if !slices.Contains(out.Machines, run.Manifest.Machine) {
			out.Machines = append(out.Machines, run.Manifest.Machine)
		}
		addNew(&out.Settings, listSettings(run)...)
		isReal, modeled := listParts(run.Manifest)
		addNew(&out.Real, isReal...)
		addNew(&out.Modeled, modeled...)
	}
	b.results = out
	return nil
}

// addNew appends what is not there yet.
func addNew[T comparable](to *[]T, values ...T) {
	for _, v := range values {
		if !slices.Contains(*to, v) {
			*to = append(*to, v)
		}
	}
}

func newLine(r compare.Run, side string) RunLine {
	share := func(key string) *float64 {
		if m, ok := r.Judgement.Measures[key]; ok {
			return &m.Value
		}
		return nil
	}
	return RunLine{
		Name: r.Name, Side: side, Started: r.Manifest.Started, Seed: r.Manifest.Seed, Parameters: r.Manifest.Parameters, Verdict: r.Judgement.Verdict,
		EndedEarly: r.Unfit(), Seconds: r.Judgement.Measures["run_seconds"].Value, Others: share("host_others_share"), Steal: share("host_steal_share"),
	}
}

// listSettings lists what a run had set: parameters that are not the scenario's defaults,
// and what makes its figures another machine's.
func listSettings(r compare.Run) (out []Setting) {
	m := r.Manifest
	defaults := map[string]string{}
	if s, err := scenario.Parse(m.File, []byte(r.Scenario), nil); err == nil {
		defaults = scenario.Settings(s.Values)
	} // else a parameter has no default: all of them were set
	set := scenario.Settings(m.Parameters)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if was, known := defaults[name]; !known || was != set[name] {
			out = append(out, Setting{"parameter " + name, set[name], cmp.Or(was, "none")})
		}
	}
	add := func(differs bool, name, value, was string) {
		if differs {
			out = append(out, Setting{name, value, was})
		}
	}
	add(m.Plane.Durability != "fsync", "durability of etcd", cmp.Or(m.Plane.Durability, "not known"), "fsync")
	add(m.Fleet.StretchedHeartbeat, "lease renewal", "every "+unit.Seconds(m.Fleet.RenewEverySeconds), "every 10 s")
	add(m.MaxNeighbours != 0 && m.MaxNeighbours != record.DefaultMaxNeighbours, "CPU of other processes", unit.Number(100*m.MaxNeighbours)+" %", unit.Number(100*record.DefaultMaxNeighbours)+" %")
	parts := m.Processes()
	if whole, limited := m.Plane.Whole(); limited {
		parts = append(parts, whole)
	}
	for _, c := range parts {
		add(c.CPULimit > 0, "CPU limit of "+c.Name, unit.Number(c.CPULimit)+" cores", "none")
		add(c.MemoryLimit > 0, "memory limit of "+c.Name, unit.Bytes(c.MemoryLimit).Human(), "none")
	}
	return out
}

// listParts says what of a run was the real thing and what a model of it.
func listParts(m record.Manifest) (isReal, modeled []string) {
	for _, c := range m.Plane.Components {
		isReal = append(isReal, c.Name)
	}
	if m.Plane.Kind == record.KindAttached {
		isReal = append(isReal, "a cluster reached by a kubeconfig")
	}
	for _, s := range m.Subjects {
		isReal = append(isReal, "subject "+s.Name)
	}
	if m.Fleet.Nodes > 0 {
		modeled = append(modeled, unit.Count(m.Fleet.Nodes, "nodes")+" with their kubelets")
	}
	for _, g := range m.Members {
		if g.Kind == "real" {
			isReal = append(isReal, unit.Count(g.Count, "API servers")+" of members "+g.Name)
			continue
		}
		modeled = append(modeled, unit.Count(g.Count, "clusters")+" of members "+g.Name)
	}
	return isReal, modeled
}
