package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// The types of steps, and the ways in which they are run.
const (
	stepApply   = "apply-component"
	stepSuspend = "suspend"
	stepDeploy  = "deploy"
	stepGroup   = "step-group"
	modeDAG     = "DAG"
	modeSerial  = "StepByStep"
)

// step is one step of a workflow with what it delivers.
type step struct {
	api.Step
	component *api.Component // of apply-component
	at        placement      // of apply-component
	deploy    *deployment    // of deploy
	group     []step         // of step-group
	timeout   time.Duration  // 0: none
	lasts     time.Duration  // of suspend; 0: until somebody resumes it
}

// modes are how steps, and the steps within a group, are run.
type modes struct{ steps, within string }

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

// workflow returns the steps of the application and how they are run. Without a
// workflow of its own there is one step for each topology, or else for each component.
func (p *pass) workflow() (steps []step, mode modes, err error) {
	defer p.c.metrics.stage("generate-app-steps")()
	mode = modes{modeDAG, modeDAG}
	if p.plan == nil || len(p.plan.Steps) == 0 {
		steps = p.generated()
		return steps, mode, p.order(steps, mode)
	}
	mode.steps = modeSerial
	if m := p.plan.Mode; m != nil {
		for _, one := range []struct {
			given string
			into  *string
		}{{m.Steps, &mode.steps}, {m.SubSteps, &mode.within}} {
			switch one.given {
			case "":
			case modeDAG, modeSerial:
				*one.into = one.given
			default:
				return nil, modes{}, fmt.Errorf("workflow: mode %q: want %s or %s", one.given, modeDAG, modeSerial)
			}
		}
	}
	if steps, err = p.resolveAll(p.plan.Steps); err != nil {
		return nil, modes{}, err
	}
	return steps, mode, p.order(steps, mode)
}

func (p *pass) resolveAll(all []api.Step) (steps []step, err error) {
	for _, s := range all {
		one, err := p.resolve(s)
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name, err)
		}
		steps = append(steps, one)
	}
	return steps, nil
}

// resolve finds what a step is to do.
func (p *pass) resolve(s api.Step) (one step, err error) {
	one = step{Step: s}
	if s.Timeout != "" {
		if one.timeout, err = time.ParseDuration(s.Timeout); err != nil || one.timeout <= 0 {
			return one, fmt.Errorf("timeout %q: want a duration above 0, such as 10m", s.Timeout)
		}
	}
	if len(s.SubSteps) > 0 && s.Type != stepGroup {
		return one, fmt.Errorf("subSteps in a step of type %s: only one of type %s has them", s.Type, stepGroup)
	}
	switch s.Type {
	case stepSuspend:
		one.lasts, err = suspension(s)
	case stepDeploy:
		one.deploy, err = p.deployment(s)
	case stepGroup:
		one.group, err = p.resolveAll(s.SubSteps)
		if slices.ContainsFunc(s.SubSteps, func(s api.Step) bool { return s.Type == stepGroup }) {
			err = errors.New("a group within a group")
		}
	case stepApply:
		err = p.resolveApply(&one)
	default:
		err = fmt.Errorf("type %s is not one that the plane carries out: want %s, %s, %s or %s", s.Type, stepApply, stepDeploy, stepGroup, stepSuspend)
	}
	return one, err
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

func (p *pass) resolveApply(s *step) error {
	var properties struct {
		Component string `json:"component"`
		Cluster   string `json:"cluster"`
		Namespace string `json:"namespace"`
	}
	if err := json.Unmarshal(s.Properties, &properties); err != nil {
		return err
	}
	i := slices.IndexFunc(p.app.Spec.Components, func(c api.Component) bool { return c.Name == properties.Component })
	if i < 0 {
		return fmt.Errorf("no component %q", properties.Component)
	}
	s.component, s.at = &p.app.Spec.Components[i], placement{properties.Cluster, properties.Namespace}
	if s.at.cluster == cluster.Local {
		s.at.cluster = ""
	}
	s.Inputs, s.Outputs = slices.Concat(s.Inputs, s.component.Inputs), slices.Concat(s.Outputs, s.component.Outputs)
	return nil
}

// generated are the steps of an application that names none: overrides without a
// topology change what is delivered at home.
func (p *pass) generated() (steps []step) {
	topologies := p.topologies
	if len(topologies) == 0 && len(p.overrides) > 0 {
		return []step{{
			Step: api.Step{Name: stepDeploy, Type: stepDeploy}, deploy: &deployment{overrides: p.overrides, parallelism: deployAtOnce},
		}}
	}
	for _, t := range topologies {
		steps = append(steps, step{
			Step:   api.Step{Name: stepDeploy + "-" + t.name, Type: stepDeploy},
			deploy: &deployment{topologies: []topology{t}, overrides: p.overrides, parallelism: deployAtOnce},
		})
	}
	if len(steps) > 0 {
		return steps
	}
	for i, c := range p.app.Spec.Components {
		steps = append(steps, step{
			Step:      api.Step{Name: c.Name, Type: stepApply, DependsOn: c.DependsOn, Inputs: c.Inputs, Outputs: c.Outputs},
			component: &p.app.Spec.Components[i],
		})
	}
	return steps
}

// order lets steps wait for those whose outputs they take, and says whether they can
// come one after the other: names are there once, and no step waits for what does
// not come.
func (p *pass) order(steps []step, mode modes) error {
	all := flat(steps)
	from := map[string]string{} // step by what it gives
	for _, s := range all {
		for _, o := range s.Outputs {
			if from[o.Name] != "" {
				return fmt.Errorf("step %s: output %s is one of step %s already", s.Name, o.Name, from[o.Name])
			}
			from[o.Name] = s.Name
		}
	}
	p.gives = len(from) > 0
	waits := map[string][]string{}
	var bind func(steps []step, serial bool) error
	bind = func(steps []step, serial bool) error {
		for i := range steps {
			s := &steps[i]
			if _, twice := waits[s.Name]; twice {
				return fmt.Errorf("step %s is there twice", s.Name)
			}
			for _, in := range s.Inputs {
				switch {
				case strings.HasPrefix(in.From, ofContext):
				case from[in.From] == "":
					return fmt.Errorf("step %s: input %s: no step gives it", s.Name, in.From)
				case !slices.Contains(s.DependsOn, from[in.From]):
					s.DependsOn = append(slices.Clip(s.DependsOn), from[in.From])
				}
			}
			waits[s.Name] = slices.Clone(s.DependsOn)
			if serial && i > 0 {
				waits[s.Name] = append(waits[s.Name], steps[i-1].Name)
			}
			for _, o := range s.group {
				waits[s.Name] = append(waits[s.Name], o.Name)
			}
			if err := bind(s.group, mode.within == modeSerial); err != nil {
				return err
			}
		}
		return nil
	}
	if err := bind(steps, mode.steps == modeSerial); err != nil {
		return err
	}
	return acyclic(all, waits)
}

// acyclic says whether each step can be reached by way of what it waits for.
func acyclic(all []step, waits map[string][]string) error {
	const open, done = 1, 2
	seen := map[string]int{}
	var visit func(string) error
	visit = func(name string) error {
		if seen[name] != 0 {
			if seen[name] == open {
				return fmt.Errorf("step %s waits for itself, by way of others", name)
			}
			return nil
		}
		seen[name] = open
		for _, other := range waits[name] {
			if _, ok := waits[other]; !ok {
				return fmt.Errorf("step %s depends on %s, which is not there", name, other)
			}
			if err := visit(other); err != nil {
				return err
			}
		}
		seen[name] = done
		return nil
	}
	for _, s := range all {
		if err := visit(s.Name); err != nil {
			return err
		}
	}
	return nil
}

// flat returns steps with those within groups behind their group.
func flat(steps []step) (all []step) {
	for _, s := range steps {
		all = append(append(all, s), s.group...)
	}
	return all
}
