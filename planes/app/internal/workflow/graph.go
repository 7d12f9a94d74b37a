// Package workflow decides which step of an application's workflow is next, and what
// the status of a step is after its outcome is known.
//
// It has no client, no clock and no cache: a Run takes statuses, outcomes and the
// time, and returns actions. Whoever drives the Run carries the actions out. What a
// step delivers, and the language of its condition, are not known here.
package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// The types of steps that the workflow itself carries out. All other types are
// executed by the driver.
const (
	TypeSuspend = "suspend"
	TypeGroup   = "step-group"
)

// The modes in which steps, or the steps within a group, run.
const (
	DAG        = "DAG"        // each step as soon as the steps that it depends on are finished
	StepByStep = "StepByStep" // one after the other
)

// ContextPrefix begins the name of an input that is a field of the template context,
// not the output of a step.
const ContextPrefix = "context."

// Step is one step of a workflow.
type Step struct {
	api.Step
	TimeLimit time.Duration // parsed Timeout; 0: none
	Group     []Step        // parsed SubSteps, of a step of TypeGroup
}

// Graph is the steps of a workflow, each with the steps that it depends on. No step
// waits for itself or for a step that does not exist.
type Graph struct {
	steps  []Step
	mode   api.WorkflowMode
	byName map[string]*Step
	gives  map[string]string // name of a step by the name of its output
	waits  map[string][]string
}

// NewGraph makes each step depend on the steps whose outputs it takes. It returns an
// error if names of steps or outputs are not unique, or if steps cannot be ordered.
func NewGraph(steps []Step, mode api.WorkflowMode) (*Graph, error) {
	g := &Graph{steps: steps, mode: mode, byName: map[string]*Step{}, gives: map[string]string{}, waits: map[string][]string{}}
	for _, s := range g.All() {
		for _, o := range s.Outputs {
			if g.gives[o.Name] != "" {
				return nil, fmt.Errorf("step %s: output %s is one of step %s already", s.Name, o.Name, g.gives[o.Name])
			}
			g.gives[o.Name] = s.Name
		}
	}
	if err := g.bindSteps(steps, mode.Steps == StepByStep); err != nil {
		return nil, err
	}
	return g, g.checkOrder()
}

// All returns the steps; the steps within a group follow their group.
func (g *Graph) All() (all []*Step) {
	for i := range g.steps {
		all = append(all, &g.steps[i])
		for k := range g.steps[i].Group {
			all = append(all, &g.steps[i].Group[k])
		}
	}
	return all
}

// Mode returns how the steps run.
func (g *Graph) Mode() api.WorkflowMode { return g.mode }

// HasOutputs says whether some step has outputs.
func (g *Graph) HasOutputs() bool { return len(g.gives) > 0 }

func (g *Graph) bindSteps(steps []Step, serial bool) error {
	for i := range steps {
		s := &steps[i]
		if err := g.bindInputs(s); err != nil {
			return err
		}
		if serial && i > 0 {
			g.waits[s.Name] = append(g.waits[s.Name], steps[i-1].Name)
		}
		if err := g.bindSteps(s.Group, g.mode.SubSteps == StepByStep); err != nil {
			return err
		}
	}
	return nil
}

// bindInputs lets a step wait for the steps whose outputs it takes.
func (g *Graph) bindInputs(s *Step) error {
	if g.byName[s.Name] != nil {
		return fmt.Errorf("step %s is there twice", s.Name)
	}
	g.byName[s.Name] = s
	for _, in := range s.Inputs {
		switch from := g.gives[in.From]; {
		case strings.HasPrefix(in.From, ContextPrefix):
		case from == "":
			return fmt.Errorf("step %s: input %s: no step gives it", s.Name, in.From)
		case !slices.Contains(s.DependsOn, from):
			s.DependsOn = append(slices.Clip(s.DependsOn), from)
		}
	}
	g.waits[s.Name] = slices.Clone(s.DependsOn)
	for _, o := range s.Group {
		g.waits[s.Name] = append(g.waits[s.Name], o.Name)
	}
	return nil
}

// checkOrder returns an error if a step waits for a step that does not exist, or for itself.
func (g *Graph) checkOrder() error {
	const open, done = 1, 2
	seen := map[string]int{}
	var visit func(string) error
	visit = func(name string) error {
		switch seen[name] {
		case open:
			return fmt.Errorf("step %s waits for itself, by way of others", name)
		case done:
			return nil
		}
		seen[name] = open
		for _, other := range g.waits[name] {
			if g.byName[other] == nil {
				return fmt.Errorf("step %s depends on %s, which is not there", name, other)
			}
			if err := visit(other); err != nil {
				return err
			}
		}
		seen[name] = done
		return nil
	}
	for _, s := range g.All() {
		if err := visit(s.Name); err != nil {
			return err
		}
	}
	return nil
}
