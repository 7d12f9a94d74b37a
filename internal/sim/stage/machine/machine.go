// Package machine compiles kwok stages, on any resource, and plays them: a pure
// machine from (object, now, chance) to a stage with its delay, and from
// (stage, step, object) to effects.
//
// It sends nothing, waits for nothing and keeps no objects: the fleet watches,
// keeps the delays and carries the effects out; package golden plays it on
// files. Objects are trees of map[string]any, []any, string, bool, nil and
// json.Number, as Decode makes them.
package machine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/sim/stage/expression"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

// Resource names a kind of object.
type Resource = kwok.Resource

// Error says what is wrong with a stage, and where: file, line, stage, field.
type Error = kwok.Error

// Env is what templates know besides their object.
type Env = render.Env

// Machine is a set of compiled stages. It is immutable and may be used by many
// goroutines.
type Machine struct {
	stages   map[Resource]Stages
	order    []Resource
	findings []Finding
}

// Stages are the stages of one resource, in the order of the files.
type Stages []*Stage

// Stage is one compiled stage.
type Stage struct {
	name      string
	source    *kwok.Stage
	requires  []*expression.Requirement // labels and annotations among them
	programs  []program
	weight    weight
	delay     delay
	steps     []step
	immediate bool
	again     again // what a look at it alone tells
	uid       *object.Path
}

// program is a CEL expression and where it stands.
type program struct {
	*expression.Program
	field string
}

// Compile compiles stages. Those without a selector are left out: they match
// nothing. The error joins all faults, each an *Error.
func Compile(stages []*kwok.Stage) (*Machine, error) {
	m := &Machine{stages: map[Resource]Stages{}}
	c := &compiler{languages: map[Resource]*expression.Language{}, seen: map[string]*kwok.Stage{}}
	for _, source := range stages {
		c.requireUnique(source)
		if source.Spec.Selector == nil {
			m.findings = append(m.findings, newFinding(source, "spec.selector", "is missing: the stage is ignored"))
			continue
		}
		s := c.compileStage(source)
		r := source.Resource()
		if m.stages[r] == nil {
			m.order = append(m.order, r)
		}
		m.stages[r] = append(m.stages[r], s)
	}
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	for _, r := range m.order {
		for _, s := range m.stages[r] {
			m.findings = append(m.findings, s.inspectStage()...)
		}
	}
	return m, nil
}

// Resources returns the resources that have stages, in the order of the files.
func (m *Machine) Resources() []Resource { return slices.Clone(m.order) }

// Stages returns the stages of a resource.
func (m *Machine) Stages(r Resource) Stages { return m.stages[r] }

// Findings returns what will probably not do what its author meant.
func (m *Machine) Findings() []Finding { return m.findings }

// Name returns the stage's name.
func (s *Stage) Name() string { return s.name }

// Source returns the stage as it stands in its file.
func (s *Stage) Source() *kwok.Stage { return s.source }

// Immediate says that the answer to the stage's patch is matched at once.
func (s *Stage) Immediate() bool { return s.immediate }

// Decode reads an object's JSON.
func Decode(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	return out, nil
}

// Choice is the stage that plays next, and after how long. A nil Stage says
// that none matches.
type Choice struct {
	Stage *Stage
	Delay time.Duration
}

// Match chooses the stage that plays next on an object. An error is that of an
// expression: the object is to be left alone.
func (m *Machine) Match(o map[string]any, now time.Time, rng *rand.Rand) (Choice, error) {
	return m.stages[resourceOf(o)].Match(o, now, rng)
}

// Possible returns every stage that Match may choose.
func (m *Machine) Possible(o map[string]any, now time.Time) (Stages, error) {
	c, err := m.stages[resourceOf(o)].findCandidates(object.Of(o), expression.Moment{Now: now})
	return c.stages, err
}

func resourceOf(o map[string]any) Resource {
	version, _ := o["apiVersion"].(string)
	kind, _ := o["kind"].(string)
	return Resource{APIVersion: version, Kind: kind}
}
