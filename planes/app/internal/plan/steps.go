package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// The types of steps that deliver something.
const (
	stepApply  = "apply-component"
	stepDeploy = "deploy"
)

// Task is what a step does.
type Task struct {
	Component *api.Component // of apply-component
	At        Place          // of apply-component
	Deploy    *Deployment    // of deploy
	Duration  time.Duration  // of suspend; 0: until somebody resumes it
}

// Graph returns the steps of the application in the order in which they run. Without
// a workflow of its own there is one step for each topology, or else for each component.
func (p *Plan) Graph() (g *workflow.Graph, err error) {
	p.tasks = map[string]Task{}
	mode := api.WorkflowMode{Steps: workflow.DAG, SubSteps: workflow.DAG}
	var steps []workflow.Step
	if p.Workflow == nil || len(p.Workflow.Steps) == 0 {
		steps = p.generatedSteps()
	} else {
		if mode, err = modeOf(p.Workflow.Mode); err != nil {
			return nil, err
		}
		if steps, err = p.resolveAll(p.Workflow.Steps); err != nil {
			return nil, err
		}
	}
	p.graph, err = workflow.NewGraph(steps, mode)
	return p.graph, err
}

// modeOf fills in what a mode leaves out.
func modeOf(given *api.WorkflowMode) (api.WorkflowMode, error) {
	mode := api.WorkflowMode{Steps: workflow.StepByStep, SubSteps: workflow.DAG}
	if given == nil {
		return mode, nil
	}
	mode.Steps, mode.SubSteps = cmp.Or(given.Steps, mode.Steps), cmp.Or(given.SubSteps, mode.SubSteps)
	for _, one := range []string{mode.Steps, mode.SubSteps} {
		if one != workflow.DAG && one != workflow.StepByStep {
			return mode, fmt.Errorf("workflow: mode %q: want %s or %s", one, workflow.DAG, workflow.StepByStep)
		}
	}
	return mode, nil
}

func (p *Plan) resolveAll(all []api.Step) (steps []workflow.Step, err error) {
	for _, s := range all {
		one, err := p.resolveStep(s)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name, err)
		}
		steps = append(steps, one)
	}
	return steps, nil
}

// resolveStep finds what a step does, and the steps within it.
func (p *Plan) resolveStep(s api.Step) (one workflow.Step, err error) {
	one = workflow.Step{Step: s}
	if s.Timeout != "" {
		if one.TimeLimit, err = time.ParseDuration(s.Timeout); err != nil || one.TimeLimit <= 0 {
			return one, fmt.Errorf("timeout %q: want a duration above 0, such as 10m", s.Timeout)
		}
	}
	if len(s.SubSteps) > 0 && s.Type != workflow.TypeGroup {
		return one, fmt.Errorf("subSteps in a step of type %s: only one of type %s has them", s.Type, workflow.TypeGroup)
	}
	if one.Group, err = p.resolveAll(s.SubSteps); err != nil {
		return one, err
	}
	if slices.ContainsFunc(s.SubSteps, func(s api.Step) bool { return s.Type == workflow.TypeGroup }) {
		return one, errors.New("a group within a group")
	}
	t, err := p.taskOf(s)
	if err != nil {
		return one, err
	}
	if c := t.Component; c != nil {
		one.Inputs, one.Outputs = slices.Concat(s.Inputs, c.Inputs), slices.Concat(s.Outputs, c.Outputs)
	}
	p.tasks[s.Name] = t
	return one, nil
}

// taskOf returns what a step does by its properties.
func (p *Plan) taskOf(s api.Step) (t Task, err error) {
	switch s.Type {
	case workflow.TypeSuspend:
		t.Duration, err = suspendDuration(s)
	case stepDeploy:
		t.Deploy, err = p.deploymentOf(s)
	case workflow.TypeGroup:
	case stepApply:
		t.Component, t.At, err = p.appliedComponent(s)
	default:
		err = fmt.Errorf("type %s is not one that the plane carries out: want %s, %s, %s or %s", s.Type, stepApply, stepDeploy, workflow.TypeGroup, workflow.TypeSuspend)
	}
	return t, err
}

// suspendDuration returns how long a step suspends the workflow; 0 for without end.
func suspendDuration(s api.Step) (time.Duration, error) {
	var properties struct {
		Duration string `json:"duration"`
	}
	if len(s.Properties) == 0 {
		return 0, nil
	}
	if err := json.Unmarshal(s.Properties, &properties); err != nil || properties.Duration == "" {
		return 0, err
	}
	d, err := time.ParseDuration(properties.Duration)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("duration %q: want one above 0, such as 10m", properties.Duration)
	}
	return d, nil
}

// appliedComponent returns the component that a step applies, and where.
func (p *Plan) appliedComponent(s api.Step) (*api.Component, Place, error) {
	var properties struct {
		Component string `json:"component"`
		Cluster   string `json:"cluster"`
		Namespace string `json:"namespace"`
	}
	if err := json.Unmarshal(s.Properties, &properties); err != nil {
		return nil, Place{}, err
	}
	i := slices.IndexFunc(p.App.Spec.Components, func(c api.Component) bool { return c.Name == properties.Component })
	if i < 0 {
		return nil, Place{}, fmt.Errorf("no component %q", properties.Component)
	}
	if properties.Cluster == cluster.Local {
		properties.Cluster = ""
	}
	return &p.App.Spec.Components[i], Place{properties.Cluster, properties.Namespace}, nil
}

// generatedSteps are the steps of an application that names none: overrides without a
// topology change what is delivered at home.
func (p *Plan) generatedSteps() (steps []workflow.Step) {
	add := func(s api.Step, t Task) {
		steps = append(steps, workflow.Step{Step: s})
		p.tasks[s.Name] = t
	}
	for _, t := range p.topologies {
		add(api.Step{Name: stepDeploy + "-" + t.name, Type: stepDeploy}, Task{Deploy: &Deployment{topologies: []topology{t}, overrides: p.overrides, Parallelism: deployAtOnce}})
	}
	if len(p.topologies) == 0 && len(p.overrides) > 0 {
		add(api.Step{Name: stepDeploy, Type: stepDeploy}, Task{Deploy: &Deployment{overrides: p.overrides, Parallelism: deployAtOnce}})
	}
	if len(steps) > 0 {
		return steps
	}
	for i, c := range p.App.Spec.Components {
		add(api.Step{Name: c.Name, Type: stepApply, DependsOn: c.DependsOn, Inputs: c.Inputs, Outputs: c.Outputs}, Task{Component: &p.App.Spec.Components[i]})
	}
	return steps
}
