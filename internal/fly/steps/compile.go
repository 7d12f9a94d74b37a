package steps

import (
	"errors"
	"fmt"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/interop/bodies"
	"github.com/windtunnel/windtunnel/scenario"
)

// Compile compiles a scenario's steps as package workload does, and renders the first object
// of every create step.
func Compile(s *scenario.Scenario, file string, stamp object.Stamp) (*workload.Workload, error) {
	w, err := workload.Compile(s, file, stamp)
	if err != nil {
		return nil, err
	}
	return w, tryBodies(w)
}

// tryBodies renders the first object of every create step, and looks at the names of others.
func tryBodies(w *workload.Workload) error {
	var errs []error
	made := map[string]*Objects{}
	for step := range w.Scenario.AllSteps() {
		if step.Create == nil || step.Create.Count+step.Create.PerNamespace == 0 {
			continue
		}
		o := newObjects(w, step.Name, step.Create)
		made[step.Name] = o
		for k := range o.items {
			if err := o.tryItem(k); err != nil {
				errs = append(errs, fmt.Errorf("%w (the first object of step %q)", err, step.Name))
			}
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	return errors.Join(checkNames(w, made), workload.CheckFixedCreates(w))
}

// newObjects returns what a create step is to make; nothing of it is there yet.
func newObjects(w *workload.Workload, step string, c *scenario.Create) *Objects {
	o := &Objects{step: step, create: c, namespaces: w.NamespacesOf(c), seed: w.Scenario.Seed, expects: w.Expects, stamp: w.Stamp}
	spaces := 1
	if c.PerNamespace > 0 {
		spaces = len(o.namespaces)
	}
	o.layout = inventory.NewLayout(c, spaces)
	for _, one := range o.layout.Items {
		dialect := w.Scenario.Bodies[one.Body].Dialect
		o.items = append(o.items, item{
			Item: one, body: w.Bodies[one.Body], with: workload.MergeVariables(c.With, one.With),
			optional:  dialect == bodies.ClusterLoader2,
			namesSelf: dialect == bodies.KubeBurner, // even where the first name is as ours
			strict:    w.IsStrict(one.Body),
		})
	}
	return o
}

// pacingOf returns a batch's pace for a step.
func pacingOf(w *workload.Workload, step string, b batch, p scenario.Pace) pacing {
	return pacing{Pace: w.PaceOf(step, p, b.units), unit: b.unit, shift: b.shift, calls: float64(b.count) / float64(max(1, b.units))}
}
