package steps

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/template/protobuf"
	"github.com/windtunnel/windtunnel/scenario"
)

// Created is what the create steps of a run have made until now. Steps that run
// at the same time share it.
type Created struct {
	mu      sync.Mutex
	steps   map[string]*Objects
	tracked bool               // their changes are remembered
	seen    map[[2]string]bool // resources and selectors of which some wait has seen objects
	aged    sync.Map           // names of definitions that were looked at, see awaitAge
}

// NewCreated returns an empty table.
func NewCreated() *Created {
	return &Created{steps: map[string]*Objects{}, seen: map[[2]string]bool{}}
}

// noteSeen remembers that objects of a resource with such labels were there.
func (c *Created) noteSeen(resource, selector string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen[[2]string{resource, selector}], c.seen[[2]string{resource, ""}] = true, true
}

// hasSeen tells whether a wait has seen such objects.
func (c *Created) hasSeen(resource, selector string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[[2]string{resource, selector}]
}

// mayHaveBrought tells whether the run has made objects of a resource with such labels, or
// objects with a template of such, from which a controller makes them.
func (c *Created) mayHaveBrought(r discovery.Resource, selector string) bool {
	fits, err := labels.Parse(selector)
	if err != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.steps {
		if o.mayHaveBrought(r, fits) {
			return true
		}
	}
	return false
}

// find returns what a create step made; nil when it was not reached.
func (c *Created) find(step string) *Objects {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.steps[step]
}

// findReached is the same where a step that was not reached, or whose objects were all
// refused, is an error.
func (c *Created) findReached(step string) (*Objects, error) {
	o := c.find(step)
	if o == nil {
		return nil, fmt.Errorf("step %q was not reached: it made nothing", step)
	}
	return o, o.madeNone()
}

// findUsable is the same where a step that was not reached is nil.
func (c *Created) findUsable(step string) (*Objects, error) {
	if c.find(step) == nil {
		return nil, nil
	}
	return c.findReached(step)
}

// ofGroup returns what the steps of a group of pods made.
func (c *Created) ofGroup(name string) (out []*Objects) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, step := range slices.Sorted(maps.Keys(c.steps)) {
		if o := c.steps[step]; o.create.Group == name {
			out = append(out, o)
		}
	}
	return out
}

func (c *Created) addStep(step string, o *Objects) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tracked {
		o.Track()
	}
	c.steps[step] = o
}

// resourceNames are those of which the run makes objects.
func (c *Created) resourceNames() map[string]bool {
	out := map[string]bool{"namespaces": true, "pods": true}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, o := range c.steps {
		for _, it := range o.items {
			out[it.resource.Name] = true
		}
	}
	return out
}

// TrackChanges has changes remembered from now on, for TakeChanges.
func (c *Created) TrackChanges() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tracked = true
}

// TakeChanges returns what has changed since it was last called.
func (c *Created) TakeChanges() inventory.Changes {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := inventory.Changes{}
	for _, step := range slices.Sorted(maps.Keys(c.steps)) {
		if one := c.steps[step].TakeChange(); one != nil {
			out[step] = one
		}
	}
	return out
}

// Apply takes over what others have seen. Of a step that was not reached here there
// is nothing to change.
func (c *Created) Apply(all inventory.Changes) {
	for step, one := range all {
		if o := c.find(step); o != nil && one != nil {
			o.Apply(one)
		}
	}
}

// newObjects makes a create step known: what each body is, and where the plane
// serves it.
func (s *Session) newObjects(ctx context.Context, step string, c *scenario.Create) (*Objects, error) {
	o := newObjects(s.Workload, step, c)
	for k := range o.items {
		it := &o.items[k]
		if err := o.tryItem(k); err != nil {
			return nil, err
		}
		if !it.namesSelf && !s.Workload.WantsJSON(step) {
			it.packed = protobuf.New(it.body)
		}
		if it.body.Kind() == "" {
			continue // a body that leaves out all of its objects
		}
		var err error
		if it.resource, err = s.findKind(ctx, it.body); err != nil {
			return nil, err
		}
	}
	s.Created.addStep(step, o)
	return o, nil
}
