package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// placement is one place for a component. The zero value is the application's own
// namespace in the cluster that it is in.
type placement struct{ cluster, namespace string }

// deployment is what a deploy step is told.
type deployment struct {
	topologies  []topology
	overrides   []override
	parallelism int
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

// deployment returns what a deploy step of the application delivers.
func (p *pass) deployment(s api.Step) (*deployment, error) {
	var properties struct {
		Policies    []string `json:"policies"`
		Parallelism int      `json:"parallelism"`
	}
	if len(s.Properties) > 0 {
		if err := json.Unmarshal(s.Properties, &properties); err != nil {
			return nil, err
		}
	}
	out := &deployment{parallelism: deployAtOnce}
	if properties.Parallelism > 0 {
		out.parallelism = properties.Parallelism
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

// placements returns where a deployment goes: each cluster once, by names as they
// stand, by labels in the order of names.
func (c *Controller) placements(d deployment) (out []placement, err error) {
	add := func(name, namespace string) {
		if name == cluster.Local {
			name = ""
		}
		if at := (placement{name, namespace}); !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	if len(d.topologies) == 0 {
		add("", "")
	}
	for _, t := range d.topologies {
		for _, name := range t.Clusters {
			_, joined, err := c.members.GetStore().GetByKey(api.SystemNamespace + "/" + name)
			if err != nil {
				return nil, err
			}
			if !joined && name != cluster.Local {
				return nil, fmt.Errorf("policy %s: cluster %q: %w", t.name, name, errUnjoined)
			}
			add(name, t.Namespace)
		}
		if len(t.Clusters) > 0 {
			continue
		}
		if t.Selector == nil {
			add("", t.Namespace)
			continue
		}
		names := c.selected(t.Selector)
		if len(names) == 0 && !t.AllowEmpty {
			return nil, fmt.Errorf("policy %s: %w labels %s", t.name, errNowhere, labels.SelectorFromSet(t.Selector))
		}
		for _, name := range names {
			add(name, t.Namespace)
		}
	}
	return out, nil
}

// selected returns the members with labels, in the order of their names.
func (c *Controller) selected(with map[string]string) (names []string) {
	selector := labels.SelectorFromSet(with)
	for _, o := range c.members.GetStore().List() {
		if s := o.(*corev1.Secret); selector.Matches(labels.Set(s.Labels)) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

// delivery is one component for one place.
type delivery struct {
	component api.Component
	at        placement
	healthy   bool
	message   string
	err       error
}

// deploy delivers all components to all places: how each is there is looked at
// first, and what is not healthy is applied, several at the same time. A component
// waits for those that it depends on in the same place.
func (p *pass) deploy(ctx context.Context, d deployment) (ok bool, message string, err error) {
	places, err := p.c.placements(d)
	if err != nil {
		return false, "", err
	}
	components := p.app.Spec.Components
	for _, o := range d.overrides {
		if components, err = o.apply(components); err != nil {
			return false, "", err
		}
	}
	var all []*delivery
	for _, component := range components {
		if len(component.Inputs)+len(component.Outputs) > 0 {
			return false, "", fmt.Errorf("component %s: inputs and outputs need a step of type %s", component.Name, stepApply)
		}
		for _, at := range places {
			all = append(all, &delivery{component: component, at: at})
		}
	}
	each(all, d.parallelism, func(t *delivery) { t.healthy = p.isHealthy(ctx, t.component, t.at) })
	var mu sync.Mutex // of healthy: others look whether what they wait for is well by now
	each(all, d.parallelism, func(t *delivery) {
		mu.Lock()
		rests := t.healthy || waitsFor(t, all)
		mu.Unlock()
		if rests {
			return
		}
		var healthy bool
		healthy, t.message, t.err = p.applyComponent(ctx, t.component, t.at)
		mu.Lock()
		t.healthy = healthy
		mu.Unlock()
	})
	var errs []error
	var waiting []string
	for _, t := range all {
		if t.err != nil {
			errs = append(errs, t.err)
		} else if !t.healthy {
			waiting = append(waiting, strings.TrimSpace(fmt.Sprintf("%s in %s is not healthy %s", t.component.Name, nameOf(t.at), t.message)))
		}
	}
	return len(errs)+len(waiting) == 0, fewWords(waiting), fewErrors(errs)
}

// isHealthy looks whether a component that this workflow has sent is well, without
// changing anything. One that was not sent, or cannot be looked at, is not.
func (p *pass) isHealthy(ctx context.Context, component api.Component, at placement) bool {
	manifests, err := p.render(component, at)
	if err != nil || !p.tracked(manifests) {
		return false
	}
	ok, message, err := p.check(ctx, component, at, manifests)
	if err == nil {
		p.serve(component, at, manifests, ok, message)
	}
	return ok && err == nil
}

// waitsFor says whether what a component depends on is not well yet in its place.
func waitsFor(t *delivery, all []*delivery) bool {
	return slices.ContainsFunc(all, func(o *delivery) bool {
		return o.at == t.at && !o.healthy && slices.Contains(t.component.DependsOn, o.component.Name)
	})
}

// each calls f with every delivery, so many at the same time.
func each(all []*delivery, limit int, f func(*delivery)) {
	_ = parallel(len(all), limit, func(i int) error { // f keeps its own errors
		f(all[i])
		return nil
	})
}

func nameOf(at placement) string { return cmp.Or(at.cluster, cluster.Local) }

// mostNamed is how many of what is wrong a step's message names: an application may
// go to hundreds of clusters.
const mostNamed = 3

func fewWords(all []string) string {
	if len(all) > mostNamed {
		return strings.Join(all[:mostNamed], "; ") + fmt.Sprintf("; and %d more", len(all)-mostNamed)
	}
	return strings.Join(all, "; ")
}

func fewErrors(all []error) error {
	if len(all) > mostNamed {
		return fmt.Errorf("%w\nand %d more", errors.Join(all[:mostNamed]...), len(all)-mostNamed)
	}
	return errors.Join(all...)
}

// nameAndLabels keeps of a member's Secret what topologies ask for.
func nameAndLabels(o any) (any, error) {
	if s, ok := o.(*corev1.Secret); ok {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.Namespace, Name: s.Name, ResourceVersion: s.ResourceVersion, UID: s.UID, Labels: maps.Clone(s.Labels),
		}}, nil
	}
	return o, nil
}
