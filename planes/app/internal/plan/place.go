package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
	"github.com/windtunnel/windtunnel/planes/app/internal/cluster"
)

// policyTopology is the type of the policy that says where an application goes.
const policyTopology = "topology"

// deployAtOnce is how many components a deploy step looks at or applies at the same
// time, counted for each cluster, unless it says otherwise.
const deployAtOnce = 5

// topology is a policy that says where an application goes.
type topology struct {
	name       string
	Clusters   []string          `json:"clusters"`
	Selector   map[string]string `json:"clusterLabelSelector"`
	AllowEmpty bool              `json:"allowEmpty"` // a selector may match none
	Namespace  string            `json:"namespace"`  // default: that of the application
}

// Place is one place for a component. The zero value is the application's own
// namespace in the cluster that it is in.
type Place struct{ Cluster, Namespace string }

// Deployment is what a deploy step delivers, and where.
type Deployment struct {
	Parallelism int // components that are looked at or applied at the same time
	topologies  []topology
	overrides   []override
}

// Clusters are the members that have joined.
type Clusters interface {
	// Has says whether a member of the name has joined.
	Has(name string) bool
	// Matching returns the names of the members with labels, in order.
	Matching(labels map[string]string) []string
}

var (
	errUnjoined = errors.New("no such cluster has joined")
	errNowhere  = errors.New("no cluster matches")
)

func topologyOf(policy api.Policy) (topology, error) {
	t := topology{name: policy.Name}
	if len(policy.Properties) == 0 {
		return t, nil
	}
	if err := json.Unmarshal(policy.Properties, &t); err != nil {
		return t, fmt.Errorf("policy %s: %w", policy.Name, err)
	}
	return t, nil
}

// deploymentOf returns what a deploy step of the application delivers.
func (p *Plan) deploymentOf(s api.Step) (*Deployment, error) {
	var properties struct {
		Policies    []string `json:"policies"`
		Parallelism int      `json:"parallelism"`
	}
	if len(s.Properties) > 0 {
		if err := json.Unmarshal(s.Properties, &properties); err != nil {
			return nil, err
		}
	}
	out := &Deployment{Parallelism: deployAtOnce}
	if properties.Parallelism > 0 {
		out.Parallelism = properties.Parallelism
	}
	for _, name := range properties.Policies {
		if i := slices.IndexFunc(p.topologies, func(t topology) bool { return t.name == name }); i >= 0 {
			out.topologies = append(out.topologies, p.topologies[i])
			continue
		}
		i := slices.IndexFunc(p.overrides, func(o override) bool { return o.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no policy %q of type %s or %s", name, policyTopology, policyOverride)
		}
		out.overrides = append(out.overrides, p.overrides[i])
	}
	return out, nil
}

// deploymentPlaces returns where a deployment goes: each cluster once, by names as they stand, by
// labels in the order of names.
func (d Deployment) deploymentPlaces(clusters Clusters) (out []Place, err error) {
	add := func(name, namespace string) {
		if name == cluster.Local {
			name = ""
		}
		if at := (Place{name, namespace}); !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	if len(d.topologies) == 0 {
		add("", "")
	}
	for _, t := range d.topologies {
		names, err := t.clusterNames(clusters)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			add(name, t.Namespace)
		}
	}
	return out, nil
}

// clusterNames returns the clusters of a topology.
func (t topology) clusterNames(clusters Clusters) ([]string, error) {
	for _, name := range t.Clusters {
		if name != cluster.Local && !clusters.Has(name) {
			return nil, fmt.Errorf("policy %s: cluster %q: %w", t.name, name, errUnjoined)
		}
	}
	if len(t.Clusters) > 0 {
		return t.Clusters, nil
	}
	if t.Selector == nil {
		return []string{cluster.Local}, nil
	}
	names := clusters.Matching(t.Selector)
	if len(names) == 0 && !t.AllowEmpty {
		return nil, fmt.Errorf("policy %s: %w labels %s", t.name, errNowhere, labels.SelectorFromSet(t.Selector))
	}
	return names, nil
}

// Target is one component for one place.
type Target struct {
	Component api.Component
	At        Place
}

// Targets returns what a deployment delivers: all components, as its overrides want
// them, for each of its places.
func (p *Plan) Targets(d Deployment, clusters Clusters) (all []Target, err error) {
	places, err := d.deploymentPlaces(clusters)
	if err != nil {
		return nil, err
	}
	components := p.App.Spec.Components
	for _, o := range d.overrides {
		if components, err = o.applyOverride(components); err != nil {
			return nil, err
		}
	}
	for _, component := range components {
		if len(component.Inputs)+len(component.Outputs) > 0 {
			return nil, fmt.Errorf("component %s: inputs and outputs need a step of type %s", component.Name, stepApply)
		}
		for _, at := range places {
			all = append(all, Target{component, at})
		}
	}
	return all, nil
}
