// Package history follows one scenario over many runs, in a file that a build
// carries to the next one, and marks where its measures changed for good.
//
// It is pure but for Open's caller: entries in, findings out, the same for the
// same file anywhere. It compares no two variants (package compare does) and judges
// no run (package slo does).
package history

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/compare"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
)

// Format is the version of the file.
const Format = 1

// DefaultKeep is how many entries a file keeps: the newest.
const DefaultKeep = 500

// ErrRefused says that a run does not belong to a history.
var ErrRefused = errors.New("does not belong to this history")

// File is the content of history.json.
type File struct {
	Format   int     `json:"format"`
	Scenario string  `json:"scenario"`
	Entries  []Entry `json:"entries"` // in the order of their start
}

// Entry is one run.
type Entry struct {
	Name     string            `json:"name"`
	Started  time.Time         `json:"started"`
	Seed     uint64            `json:"seed"`
	Setting  Setting           `json:"setting"`
	Versions map[string]string `json:"versions"`
	Verdict  slo.Verdict       `json:"verdict"`
	// LeftOut says why its measures are not compared; empty when they are.
	LeftOut  string       `json:"left_out,omitempty"`
	Measures slo.Measures `json:"measures"` // those that are judged
	// Accepted says that somebody has seen what changed up to here, and it is
	// meant to be so: it does not fail a build any more. Acceptances are those of some
	// measures, or with a reason.
	Accepted    bool         `json:"accepted,omitempty"`
	Acceptances []Acceptance `json:"acceptances,omitempty"`
}

// Setting is what has to be the same for measures of two runs to be held against
// each other. Versions are not among it: a change of those is what a history
// is looked at for.
type Setting struct {
	Text       string         `json:"scenario_sha256"`
	Parameters map[string]any `json:"parameters"`
	Machine    record.Machine `json:"machine"`
}

// Decode reads a file; name is its name in messages.
func Decode(name string, raw []byte) (*File, error) {
	f := &File{}
	if err := text.DecodeJSON(name, raw, f); err != nil {
		return nil, err
	}
	if f.Format != Format {
		return nil, fmt.Errorf("%s: format %d, this version reads format %d", name, f.Format, Format)
	}
	for i, e := range f.Entries {
		if e.Started.IsZero() || i > 0 && e.Started.Before(f.Entries[i-1].Started) {
			return nil, fmt.Errorf("%s: entry %d (%s) is not in the order of time", name, i+1, e.Name)
		}
	}
	return f, nil
}

// Encode writes a file, the same bytes for the same content.
func (f *File) Encode() ([]byte, error) {
	raw, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode history: %w", err)
	}
	return append(raw, '\n'), nil
}

// Add adds runs, each at its place in time. One that is there already is
// replaced, and stays accepted if it was. An error wraps ErrRefused: a run of
// another scenario, or without a time.
func (f *File) Add(runs ...compare.Run) error {
	var entries []Entry
	for _, r := range runs {
		if f.Scenario == "" {
			f.Format, f.Scenario = Format, r.Manifest.Scenario
		}
		switch {
		case r.Manifest.Scenario != f.Scenario:
			return fmt.Errorf("%s: it %w: it is a run of %s, and the history is of %s", r.Name, ErrRefused, r.Manifest.Scenario, f.Scenario)
		case r.Manifest.Started.IsZero():
			return fmt.Errorf("%s: it %w: its manifest does not say when it was flown", r.Name, ErrRefused)
		}
		entries = append(entries, NewEntry(r))
	}
	f.addEntries(entries)
	return nil
}

// addEntries adds entries, each at its place in time, or in the place of one of its time.
func (f *File) addEntries(entries []Entry) {
	for _, e := range entries {
		if i := slices.IndexFunc(f.Entries, func(o Entry) bool { return o.Started.Equal(e.Started) }); i >= 0 {
			e.Accepted, e.Acceptances = f.Entries[i].Accepted, f.Entries[i].Acceptances
			f.Entries[i] = e
			continue
		}
		f.Entries = append(f.Entries, e)
	}
	slices.SortStableFunc(f.Entries, func(a, b Entry) int { return a.Started.Compare(b.Started) })
}

// Keep drops the oldest entries beyond a number.
func (f *File) Keep(most int) {
	f.Entries = slices.Clone(f.Entries[max(0, len(f.Entries)-most):])
}

// NewEntry is what a history keeps of a run.
func NewEntry(r compare.Run) Entry {
	m := r.Manifest
	e := Entry{Name: r.Name, Started: m.Started.UTC(), Seed: m.Seed, Versions: m.Versions, Verdict: r.Judgement.Verdict, LeftOut: r.Unfit(),
		Setting:  Setting{Text: fmt.Sprintf("%x", sha256.Sum256([]byte(r.Scenario))), Parameters: m.Parameters, Machine: m.Machine},
		Measures: slo.Measures{}}
	for key, v := range r.Judgement.Measures {
		if compare.IsJudged(key, v) {
			e.Measures[key] = v
		}
	}
	return e
}

// differsIn says in what two settings differ; empty when measures may be held
// against each other.
func (s Setting) differsIn(o Setting) string {
	switch {
	case s.Text != o.Text:
		return "the scenario's text"
	case !maps.EqualFunc(s.Parameters, o.Parameters, func(x, y any) bool { return fmt.Sprint(x) == fmt.Sprint(y) }):
		return "its parameters"
	case !maps.Equal(compare.MachineFacts(s.Machine), compare.MachineFacts(o.Machine)):
		return "the machine"
	}
	return ""
}

// Key is the same for settings whose measures may be held against each other.
func (s Setting) Key() string {
	return fmt.Sprint(s.Text, s.Parameters, compare.MachineFacts(s.Machine))
}
