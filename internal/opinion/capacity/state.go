package capacity

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// StateFormat is the version of State.
const StateFormat = 1

// StateFile is the name of a search's state in its folder.
const StateFile = "search.json"

// ErrOther says that a folder holds another search.
var ErrOther = errors.New("another search")

// State is the content of search.json: all that a search knows, kept after
// each run, and its result. The runs' own directories lie beside it.
type State struct {
	Format   int               `json:"format"`
	Scenario string            `json:"scenario"`
	Text     string            `json:"scenario_sha256"` // of the scenario's file
	Set      map[string]string `json:"set"`             // parameters of all runs
	Seed     uint64            `json:"seed"`            // of the first run of a point; each repeat has the next
	Machine  record.Machine    `json:"machine"`
	Plane    Plane             `json:"plane"`
	Versions map[string]string `json:"versions"`
	Plan     Plan              `json:"plan"`
	Runs     []Run             `json:"runs"`
	Result   Result            `json:"result"`

	// MaxNeighbours is the share of the machine that other processes may take; 0: the default.
	MaxNeighbours float64 `json:"max_neighbours,omitempty"`
}

// Plane is what the runs are flown on.
type Plane struct {
	Kind PlaneOrigin `json:"kind"`
	// Identity tells clusters apart: the UID of the namespace kube-system, or where
	// that may not be read the server's address. Empty for a plane of the run's own.
	Identity string `json:"identity,omitempty"`
}

// PlaneOrigin says whose plane it is.
type PlaneOrigin string

// The origins of planes.
const (
	OwnPlane PlaneOrigin = "own"     // each run boots one
	Cluster  PlaneOrigin = "cluster" // that of a kubeconfig
)

// ReadState decodes a state; the error names the file.
func ReadState(file string, raw []byte) (State, error) {
	var s State
	if err := text.DecodeJSON(file, raw, &s); err != nil {
		return s, err
	}
	if s.Format != StateFormat {
		return s, fmt.Errorf("%s: format %d, this version reads format %d", file, s.Format, StateFormat)
	}
	if err := s.Plan.Validate(); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	for i, r := range s.Runs {
		if len(r.Point) != len(s.Plan.Axes) {
			return s, fmt.Errorf("%s: run %d has %s for %s", file, i+1, unit.Count(len(r.Point), "values"), unit.Count(len(s.Plan.Axes), "parameters"))
		}
	}
	return s, nil
}

// Resume takes over the runs of an earlier state. An error wraps ErrOther and
// says what is not the same: budgets, repeats, columns and resolution may change,
// what is flown and where may not.
func (s *State) Resume(earlier State) error {
	for _, c := range []struct {
		what string
		same bool
	}{
		{"scenario", s.Scenario == earlier.Scenario},
		{"scenario's text", s.Text == earlier.Text},
		{"set of parameters", maps.Equal(s.Set, earlier.Set)},
		{"seed", s.Seed == earlier.Seed},
		{"set of varied parameters", slices.Equal(s.Plan.Axes, earlier.Plan.Axes)},
		{"machine", s.Machine == earlier.Machine},
		{"plane or cluster", s.Plane == earlier.Plane},
		{"share of the machine for other processes (--max-neighbours)", s.MaxNeighbours == earlier.MaxNeighbours},
		{"set of versions", maps.Equal(s.Versions, earlier.Versions)},
	} {
		if !c.same {
			return fmt.Errorf("%w: it has another %s", ErrOther, c.what)
		}
	}
	s.Runs = earlier.Runs
	return nil
}

// maxObjectives bounds how many of a run's objectives are kept.
const maxObjectives = 60

// NewRun makes a Run of a run's judgement. Objectives are those nearest to
// their bounds, or beyond.
func NewRun(point []float64, j slo.Judgement) Run {
	r := Run{Point: point, Verdict: j.Verdict, Objectives: []Objective{}, Rates: j.Rates}
	if j.Verdict != slo.Pass && len(j.Reasons) > 0 {
		r.Reason = j.Reasons[0]
	}
	for _, o := range j.Objectives[:min(len(j.Objectives), maxObjectives)] {
		r.Objectives = append(r.Objectives, Objective{Name: slo.Title(o), Value: o.Value, Unit: o.Unit, Threshold: o.Threshold, AtLeast: o.AtLeast, Verdict: o.Verdict, Rate: boundRate(o, j.Rates)})
	}
	return r
}

// boundRate is the name of the rate that an objective bounds; empty: none.
func boundRate(o slo.Result, rates []run.Rate) string {
	if o.SLI != "pods-running-rate" {
		return ""
	}
	for _, r := range rates {
		if group := o.Labels["group"]; r.Unit == "pods/s" && (group == "" || group == r.Step) {
			return r.Name
		}
	}
	return ""
}
