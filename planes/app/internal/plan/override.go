package plan

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// policyOverride is the type of the policy that changes components for the steps that
// name it.
const policyOverride = "override"

// override is a policy that changes components, adds some, or leaves some out.
type override struct {
	name       string
	Components []struct {
		Name       string          `json:"name"` // a regular expression of the whole name; empty: all of Type
		Type       string          `json:"type"`
		Properties json.RawMessage `json:"properties"`
		Traits     []struct {
			Type       string          `json:"type"`
			Properties json.RawMessage `json:"properties"`
			Disable    bool            `json:"disable"`
		} `json:"traits"`
	} `json:"components"`
	Selector []string `json:"selector"` // the components that stay; empty: all
}

// overrideOf returns an override, whose types need their definitions.
func (p *Plan) overrideOf(policy api.Policy) (override, error) {
	o := override{name: policy.Name}
	if len(policy.Properties) > 0 {
		if err := json.Unmarshal(policy.Properties, &o); err != nil {
			return o, fmt.Errorf("policy %s: %w", policy.Name, err)
		}
	}
	for _, c := range o.Components {
		if c.Type != "" {
			if err := p.needDefinition(api.KindComponent, c.Type); err != nil {
				return o, fmt.Errorf("policy %s: component %s: %w", policy.Name, c.Name, err)
			}
		}
		for _, t := range c.Traits {
			if err := p.needDefinition(api.KindTrait, t.Type); err != nil {
				return o, fmt.Errorf("policy %s: component %s: %w", policy.Name, c.Name, err)
			}
		}
	}
	_, err := o.applyOverride(p.App.Spec.Components)
	return o, err
}

// applyOverride returns components as the policy wants them; those given stay as they are.
func (o override) applyOverride(components []api.Component) ([]api.Component, error) {
	out := slices.Clone(components)
	for i := range o.Components {
		c := o.Components[i]
		name, err := regexp.Compile("^(?:" + c.Name + ")$")
		if err != nil {
			return nil, fmt.Errorf("policy %s: component %q: %w", o.name, c.Name, err)
		}
		found := false
		for k := range out {
			if c.Name == "" && out[k].Type != c.Type || c.Name != "" && !name.MatchString(out[k].Name) {
				continue
			}
			found = true
			if err := o.overlayComponent(i, &out[k]); err != nil {
				return nil, fmt.Errorf("policy %s: component %s: %w", o.name, out[k].Name, err)
			}
		}
		switch {
		case found:
		case c.Name == "" || c.Type == "":
			return nil, fmt.Errorf("policy %s: no component has the name %q or the type %q; a new one needs both", o.name, c.Name, c.Type)
		default:
			added := api.Component{Name: c.Name, Type: c.Type}
			if err := o.overlayComponent(i, &added); err != nil {
				return nil, fmt.Errorf("policy %s: component %s: %w", o.name, c.Name, err)
			}
			out = append(out, added)
		}
	}
	if len(o.Selector) == 0 {
		return out, nil
	}
	for _, name := range o.Selector {
		if !slices.ContainsFunc(out, func(c api.Component) bool { return c.Name == name }) {
			return nil, fmt.Errorf("policy %s: selector: no component %q", o.name, name)
		}
	}
	return slices.DeleteFunc(out, func(c api.Component) bool { return !slices.Contains(o.Selector, c.Name) }), nil
}

// overlayComponent lays the i-th change over a component.
func (o override) overlayComponent(i int, onto *api.Component) (err error) {
	c := o.Components[i]
	if c.Type != "" && c.Type != onto.Type {
		onto.Type, onto.Properties = c.Type, nil
	}
	if onto.Properties, err = mergeProperties(onto.Properties, c.Properties); err != nil {
		return err
	}
	onto.Traits = slices.Clone(onto.Traits)
	for _, t := range c.Traits {
		k := slices.IndexFunc(onto.Traits, func(o api.Trait) bool { return o.Type == t.Type })
		switch {
		case t.Disable && k >= 0:
			onto.Traits = slices.Delete(onto.Traits, k, k+1)
		case t.Disable:
		case k < 0:
			onto.Traits = append(onto.Traits, api.Trait{Type: t.Type, Properties: t.Properties})
		default:
			if onto.Traits[k].Properties, err = mergeProperties(onto.Traits[k].Properties, t.Properties); err != nil {
				return fmt.Errorf("trait %s: %w", t.Type, err)
			}
		}
	}
	return nil
}

// mergeProperties lays one object over another, either of which may be empty.
func mergeProperties(base, over json.RawMessage) (json.RawMessage, error) {
	switch {
	case len(over) == 0:
		return base, nil
	case len(base) == 0:
		return over, nil
	}
	return mergeJSON(base, over)
}
