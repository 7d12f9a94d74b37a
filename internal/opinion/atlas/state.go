package atlas

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
)

// StateFormat is the version of File; StateFile is its name in the folder of an atlas.
const (
	StateFormat = 1
	StateFile   = "atlas.json"
)

// ErrOther says that a folder holds another atlas.
var ErrOther = errors.New("another atlas")

// Setup is what all runs of an atlas have in common; says is what a message calls a field.
type Setup struct {
	Scenario      string            `json:"scenario" says:"scenario"`
	Text          string            `json:"scenario_sha256" says:"scenario's text"` // of the scenario's file
	Set           map[string]string `json:"set" says:"set of parameters"`
	Components    []string          `json:"components" says:"set of components"` // whose gates are turned
	Seed          uint64            `json:"seed" says:"seed"`
	Machine       record.Machine    `json:"machine" says:"machine"`
	Versions      map[string]string `json:"versions" says:"set of versions"`
	MaxNeighbours float64           `json:"max_neighbours,omitempty" says:"share of the machine for other processes (--max-neighbours)"`
}

// State is what became of a gate.
type State string

// The states of a gate.
const (
	Still      State = "no counter moved"
	Movement   State = "moved"
	Unshown    State = "not confirmed" // counters moved in two runs and not again in fresh ones
	Locked     State = "locked"        // a component refuses to turn it
	NotStarted State = "did not start" // the control plane did not, with the gate turned
	Unknown    State = "not measured"  // runs came to no end
)

// Entry is what an atlas knows of a gate.
type Entry struct {
	Gate
	With     []string  `json:"with,omitempty"` // gates that had to be turned too, as NAME=VALUE
	State    State     `json:"state"`
	Reason   string    `json:"reason,omitempty"` // last words of a plane that did not start, or of runs without an end
	Counters []Moved   `json:"counters"`         // that moved; totals of a run
	Costs    []Moved   `json:"costs"`            // judged measures that differ, where costs were measured
	NewKinds []string  `json:"new_kinds"`        // resources in requests with the gate on, and in none with it off
	Sums     []float64 `json:"sums,omitempty"`   // of the turned runs, in the order of the table's columns
	Runs     int       `json:"runs"`             // with the gate turned, and fresh ones of the defaults
}

// File is the content of atlas.json: all that an atlas knows, kept after each gate.
type File struct {
	Format   int       `json:"format"`
	Setup    Setup     `json:"setup"`
	Asked    int       `json:"gates_asked"` // for, in the last call
	Defaults []float64 `json:"defaults"`    // sums of the runs of the defaults
	Spread   []float64 `json:"spread"`      // by which share those differ at most
	Seconds  float64   `json:"run_seconds"` // that a run of the defaults took
	Entries  []Entry   `json:"entries"`
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
	return f, nil
}

// Resume takes over the gates of an earlier state. An error wraps ErrOther and says what is
// not the same: the gates that are asked for may change, how they are flown may not.
func (f *File) Resume(earlier File) error {
	a, b := reflect.ValueOf(f.Setup), reflect.ValueOf(earlier.Setup)
	for i := range a.NumField() {
		x, errX := json.Marshal(a.Field(i).Interface())
		y, errY := json.Marshal(b.Field(i).Interface())
		if err := errors.Join(errX, errY); err != nil {
			return fmt.Errorf("compare setups: %w", err)
		}
		if string(x) != string(y) {
			return fmt.Errorf("%w: it has another %s", ErrOther, a.Type().Field(i).Tag.Get("says"))
		}
	}
	f.Entries, f.Defaults, f.Spread, f.Seconds = earlier.Entries, earlier.Defaults, earlier.Spread, earlier.Seconds
	return nil
}

// Find returns what is known of a gate; false: it was not flown.
func (f *File) Find(gate string) (Entry, bool) {
	for _, e := range f.Entries {
		if e.Name == gate {
			return e, true
		}
	}
	return Entry{}, false
}
