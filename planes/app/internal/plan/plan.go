// Package plan is what an application asks for, as values: its definitions, policies
// and steps, the manifests that its components render, and the values that its steps
// hand to each other.
//
// It sends nothing and writes no status: package controller does.
package plan

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/template"
	"github.com/windtunnel/windtunnel/planes/app/internal/workflow"
)

// Tools are what a plan asks others for.
type Tools struct {
	Templates template.Evaluator
	// Find returns a definition that an application of the namespace may use.
	Find func(kind, namespace, name string) (*api.Definition, error)
	// Namespaced says whether objects of a kind are in namespaces.
	Namespaced func(schema.GroupVersionKind) (bool, error)
}

// Plan is what one application asks for.
type Plan struct {
	App         *api.Application
	Workflow    *api.Workflow // the application's own, or the one that it refers to; nil without one
	Definitions Definitions
	ApplyOnce   bool   // objects are not kept as they were rendered
	Revision    string // name of the revision, which templates and labels hold
	Number      int64  // of the revision

	tools      Tools
	topologies []topology
	overrides  []override
	tasks      map[string]Task // by step
	graph      *workflow.Graph
}

// Definitions are the definitions that an application uses, by kind and name.
type Definitions map[string]map[string]*api.Definition

// New finds the definitions of all types that an application and its workflow name.
func New(app *api.Application, steps *api.Workflow, tools Tools) (*Plan, error) {
	p := &Plan{App: app, Workflow: steps, Definitions: Definitions{}, tools: tools}
	for _, kind := range api.DefinitionKinds() {
		p.Definitions[kind] = map[string]*api.Definition{}
	}
	for _, component := range app.Spec.Components {
		if err := p.needDefinition(api.KindComponent, component.Type); err != nil {
			return nil, fmt.Errorf("component %s: %w", component.Name, err)
		}
		for _, trait := range component.Traits {
			if err := p.needDefinition(api.KindTrait, trait.Type); err != nil {
				return nil, fmt.Errorf("component %s: %w", component.Name, err)
			}
		}
	}
	for _, policy := range app.Spec.Policies {
		if err := p.needDefinition(api.KindPolicy, policy.Type); err != nil {
			return nil, fmt.Errorf("policy %s: %w", policy.Name, err)
		}
	}
	for _, step := range p.namedSteps() {
		if err := p.needDefinition(api.KindStep, step.Type); err != nil {
			return nil, fmt.Errorf("step %s: %w", step.Name, err)
		}
	}
	return p, nil
}

// Refers says whether the application takes the workflow of another object.
func (p *Plan) Refers() bool { return p.Workflow != nil && p.Workflow.Ref != "" }

// needDefinition finds one definition.
func (p *Plan) needDefinition(kind, name string) error {
	if p.Definitions[kind][name] != nil {
		return nil
	}
	d, err := p.tools.Find(kind, p.App.Namespace, name)
	if err == nil {
		p.Definitions[kind][name] = d
	}
	return err
}

// namedSteps are all steps that the workflow names, with those within groups.
func (p *Plan) namedSteps() (all []api.Step) {
	if p.Workflow == nil {
		return nil
	}
	for _, s := range p.Workflow.Steps {
		all = append(append(all, s), s.SubSteps...)
	}
	return all
}

// ReadPolicies reads the policies of the application.
func (p *Plan) ReadPolicies() error {
	for _, policy := range p.App.Spec.Policies {
		if err := p.readPolicy(policy); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) readPolicy(policy api.Policy) error {
	switch policy.Type {
	case policyTopology:
		t, err := topologyOf(policy)
		p.topologies = append(p.topologies, t)
		return err
	case policyOverride:
		o, err := p.overrideOf(policy)
		p.overrides = append(p.overrides, o)
		return err
	case policyApplyOnce:
		var properties struct {
			Enable bool `json:"enable"`
		}
		if err := json.Unmarshal(policy.Properties, &properties); err != nil {
			return fmt.Errorf("policy %s: %w", policy.Name, err)
		}
		p.ApplyOnce = p.ApplyOnce || properties.Enable
		return nil
	}
	return fmt.Errorf("policy %s: type %s is not one that the plane carries out: want apply-once, override or topology", policy.Name, policy.Type)
}

// policyApplyOnce is the type of the policy that leaves objects as they are once they
// are applied.
const policyApplyOnce = "apply-once"
