package bisect

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/windtunnel/windtunnel/internal/opinion/capacity"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
)

// StateFormat is the version of File.
const StateFormat = 1

// StateFile is the name of a search's state in its folder.
const StateFile = "bisect.json"

// ErrOther says that a folder holds another search.
var ErrOther = errors.New("another search")

// Setup is what all runs of a search have in common.
type Setup struct {
	Scenario      string            `json:"scenario"`
	Text          string            `json:"scenario_sha256"` // of the scenario's file
	Set           map[string]string `json:"set"`             // parameters of all runs
	Sides         Sides             `json:"sides"`
	Build         string            `json:"build,omitempty"`    // command that builds what a run starts
	Patterns      []string          `json:"measures,omitempty"` // that were asked for; empty: the search finds one
	Seed          uint64            `json:"seed"`               // of the first pair; each further pair has the next one
	Machine       record.Machine    `json:"machine"`
	Plane         capacity.Plane    `json:"plane"`
	Versions      map[string]string `json:"versions"`
	MaxNeighbours float64           `json:"max_neighbours,omitempty"` // share of the machine for other processes; 0: the default
}

// File is the content of bisect.json: all that a search knows, kept after each run, and its
// result.
type File struct {
	Format int    `json:"format"`
	File   string `json:"file"` // of the scenario, as it was given
	Setup  Setup  `json:"setup"`
	Search Search `json:"search"`
	Result Result `json:"result"`
}

// ReadFile decodes a state; the error names the file.
func ReadFile(path string, raw []byte) (File, error) {
	var f File
	if err := text.DecodeJSON(path, raw, &f); err != nil {
		return f, err
	}
	if f.Format != StateFormat {
		return f, fmt.Errorf("%s: format %d, this version reads format %d", path, f.Format, StateFormat)
	}
	if err := f.checkRuns(); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// checkRuns refuses runs that no search has flown, which Next could not make sense of.
func (f File) checkRuns() error {
	last := -1
	for i, r := range f.Search.Runs {
		if r.Pair < 0 || r.Pair < last || r.Pair > last+1 || r.Side < 0 || r.Side > 1 {
			return fmt.Errorf("run %d is of no pair", i+1)
		}
		last = r.Pair
		for _, list := range [][]int{r.With, r.Other, r.Suspect} {
			for _, c := range list {
				if c < 0 || c >= len(f.Search.Plan.Changes) {
					return fmt.Errorf("run %d has a change that is not listed", i+1)
				}
			}
		}
	}
	return nil
}

// Resume takes over the runs of an earlier state. An error wraps ErrOther and says what is
// not the same: the number of runs may change, what is flown and where may not.
func (f *File) Resume(earlier File) error {
	a, b := f.Setup, earlier.Setup
	for _, c := range []struct {
		what string
		x, y any
	}{
		{"scenario", a.Scenario, b.Scenario},
		{"scenario's text", a.Text, b.Text},
		{"set of parameters", a.Set, b.Set},
		{"good, bad or values between them", f.Search.Plan.Changes, earlier.Search.Plan.Changes},
		{"command that builds (--build)", a.Build, b.Build},
		{"set of measures", a.Patterns, b.Patterns},
		{"seed", a.Seed, b.Seed},
		{"machine", a.Machine, b.Machine},
		{"plane or cluster", a.Plane, b.Plane},
		{"share of the machine for other processes (--max-neighbours)", a.MaxNeighbours, b.MaxNeighbours},
		{"set of versions", a.Versions, b.Versions},
	} {
		if x, y := encode(c.x), encode(c.y); !reflect.DeepEqual(x, y) {
			return fmt.Errorf("%w: it has another %s", ErrOther, c.what)
		}
	}
	f.Search.Runs, f.Search.Measures = earlier.Search.Runs, earlier.Search.Measures
	return nil
}

// encode writes a part of a setup as the file has it, in which nothing and an empty list are one.
func encode(v any) string {
	if r := reflect.ValueOf(v); (r.Kind() == reflect.Map || r.Kind() == reflect.Slice) && r.Len() == 0 {
		return ""
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}
