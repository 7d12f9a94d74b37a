package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// The types of steps that deliver something.
const (
	stepApply  = "apply-component"
	stepDeploy = "deploy"
)

// task is what a step does.
type task struct {
	component *api.Component // of apply-component
	at        placement      // of apply-component
	deploy    *deployment    // of deploy
	duration  time.Duration  // of suspend; 0: until somebody resumes it
}

// findWorkflow sets the workflow that the application names or refers to; nil
// without one. What it refers to is read, and not watched: a change of it is found
// in the next pass.
func (p *pass) findWorkflow(ctx context.Context) error {
	p.plan = p.app.Spec.Workflow
	if p.plan == nil || p.plan.Ref == "" {
		return nil
	}
	if len(p.plan.Steps) > 0 {
		return fmt.Errorf("workflow: ref %s beside steps of its own: want one of them", p.plan.Ref)
	}
	defer p.c.metrics.request("Get", api.KindWorkflow, api.ExternalVersion().String())()
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	gvr := api.ExternalVersion().WithResource(api.Resource(api.KindWorkflow))
	o, err := p.c.objects.client.Resource(gvr).Namespace(p.app.Namespace).Get(ctx, p.plan.Ref, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("workflow: ref %s: %w", p.plan.Ref, err)
	}
	raw, err := o.MarshalJSON()
	if err != nil {
		return fmt.Errorf("workflow: ref %s: %w", p.plan.Ref, err)
	}
	found := &api.Workflow{Ref: p.plan.Ref}
	if err := json.Unmarshal(raw, found); err != nil {
		return fmt.Errorf("workflow: ref %s: %w", p.plan.Ref, err)
	}
	if p.plan.Mode != nil {
		found.Mode = p.plan.Mode
	}
	p.plan = found
	return nil
}

// plannedSteps are all steps that the workflow names, those within groups too.
func (p *pass) plannedSteps() (all []api.Step) {
	if p.plan == nil {
		return nil
	}
	for _, s := range p.plan.Steps {
		all = append(append(all, s), s.SubSteps...)
	}
	return all
}

// workflow returns the steps of the application in the order in which they run.
// Without a workflow of its own there is one step for each topology, or else for each
// component.
func (p *pass) workflow() (*workflow.Graph, error) {
	defer p.c.metrics.stage("generate-app-steps")()
	p.tasks = map[string]task{}
	if p.plan == nil || len(p.plan.Steps) == 0 {
		return workflow.NewGraph(p.generated(), api.WorkflowMode{Steps: workflow.DAG, SubSteps: workflow.DAG})
	}
	mode, err := modeOf(p.plan.Mode)
	if err != nil {
		return nil, err
	}
	steps, err := p.resolveAll(p.plan.Steps)
	if err != nil {
		return nil, err
	}
	return workflow.NewGraph(steps, mode)
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

func (p *pass) resolveAll(all []api.Step) (steps []workflow.Step, err error) {
	for _, s := range all {
		one, err := p.resolve(s)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name, err)
		}
		steps = append(steps, one)
	}
	return steps, nil
}

// resolve finds what a step does, and the steps within it.
func (p *pass) resolve(s api.Step) (one workflow.Step, err error) {
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
	if c := t.component; c != nil {
		one.Inputs, one.Outputs = slices.Concat(s.Inputs, c.Inputs), slices.Concat(s.Outputs, c.Outputs)
	}
	p.tasks[s.Name] = t
	return one, nil
}

// taskOf returns what a step does by its properties.
func (p *pass) taskOf(s api.Step) (t task, err error) {
	switch s.Type {
	case workflow.TypeSuspend:
		t.duration, err = suspension(s)
	case stepDeploy:
		t.deploy, err = p.deployment(s)
	case workflow.TypeGroup:
	case stepApply:
		t.component, t.at, err = p.applied(s)
	default:
		err = fmt.Errorf("type %s is not one that the plane carries out: want %s, %s, %s or %s", s.Type, stepApply, stepDeploy, workflow.TypeGroup, workflow.TypeSuspend)
	}
	return t, err
}

// suspension returns how long a step suspends the workflow; 0 for without end.
func suspension(s api.Step) (time.Duration, error) {
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

// applied returns the component that a step applies, and where.
func (p *pass) applied(s api.Step) (*api.Component, placement, error) {
	var properties struct {
		Component string `json:"component"`
		Cluster   string `json:"cluster"`
		Namespace string `json:"namespace"`
	}
	if err := json.Unmarshal(s.Properties, &properties); err != nil {
		return nil, placement{}, err
	}
	i := slices.IndexFunc(p.app.Spec.Components, func(c api.Component) bool { return c.Name == properties.Component })
	if i < 0 {
		return nil, placement{}, fmt.Errorf("no component %q", properties.Component)
	}
	if properties.Cluster == cluster.Local {
		properties.Cluster = ""
	}
	return &p.app.Spec.Components[i], placement{properties.Cluster, properties.Namespace}, nil
}

// generated are the steps of an application that names none: overrides without a
// topology change what is delivered at home.
func (p *pass) generated() (steps []workflow.Step) {
	add := func(s api.Step, t task) {
		steps = append(steps, workflow.Step{Step: s})
		p.tasks[s.Name] = t
	}
	for _, t := range p.topologies {
		add(api.Step{Name: stepDeploy + "-" + t.name, Type: stepDeploy}, task{deploy: &deployment{topologies: []topology{t}, overrides: p.overrides, parallelism: deployAtOnce}})
	}
	if len(p.topologies) == 0 && len(p.overrides) > 0 {
		add(api.Step{Name: stepDeploy, Type: stepDeploy}, task{deploy: &deployment{overrides: p.overrides, parallelism: deployAtOnce}})
	}
	if len(steps) > 0 {
		return steps
	}
	for i, c := range p.app.Spec.Components {
		add(api.Step{Name: c.Name, Type: stepApply, DependsOn: c.DependsOn, Inputs: c.Inputs, Outputs: c.Outputs}, task{component: &p.app.Spec.Components[i]})
	}
	return steps
}
