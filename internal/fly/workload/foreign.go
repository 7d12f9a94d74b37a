package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrForeign says that a call would change or delete what the run has not made.
var ErrForeign = errors.New("it is not the run's: --allow-destructive lets requests change and delete what others have made")

// CheckCalls joins an ErrForeign for each call of the steps that names something to
// change or delete which lies outside of the run's namespaces, in a cluster that is
// not the run's own. Calls without a name need none: they are narrowed to what
// carries the run's stamp.
func (w *Workload) CheckCalls(ctx context.Context, resources *discovery.Cache) error {
	var errs []error
	for step := range w.Scenario.AllSteps() {
		if step.Requests == nil {
			continue
		}
		for i := range step.Requests.Mix {
			c := &step.Requests.Mix[i]
			if !isChange(c) || c.Of != "" || c.Resource == "" || c.Name == "" {
				continue
			}
			r, err := resources.Named(ctx, c.Resource)
			if err != nil && !errors.Is(err, discovery.ErrNotServed) {
				return errors.Join(append(errs, err)...)
			} else if err != nil {
				r = discovery.Resource{Name: c.Resource} // a step may bring it: taken for one without namespaces
			}
			if !w.ownScope(r, c) {
				errs = append(errs, fmt.Errorf("step %q: %s %s %s: %w", step.Name, c.Verb, c.Resource, c.Name, ErrForeign))
			}
		}
	}
	return errors.Join(errs...)
}

// CheckFaults joins an error for each fault, upgrade and client certificate of the steps that
// is not possible in a cluster that windtunnel has not started. It is asked before anything is
// started.
func (w *Workload) CheckFaults() error {
	var errs []error
	for step := range w.Scenario.AllSteps() {
		if step.Upgrade != nil {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: upgrade: windtunnel cannot upgrade a cluster that it did not start; leave --kubeconfig out, or the step", w.File, step.Line, step.Name))
		}
		if step.Clients != nil && step.Clients.HasCertificates() {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: clients.as.method: windtunnel cannot issue certificates for a cluster that it did not start; use method: impersonation, or leave --kubeconfig out", w.File, step.Line, step.Name))
		}
		if step.Fault == nil {
			continue
		}
		if why := foreignFault(step.Fault); why != "" {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: fault: %s; leave --kubeconfig out, or the step", w.File, step.Line, step.Name, why))
		}
	}
	return errors.Join(errs...)
}

// foreignFault says why a fault cannot be injected there; empty where it can.
func foreignFault(d *scenario.Disturbance) string {
	reached := []string{plane.Load, plane.Fleet, plane.Observe}
	switch {
	case slices.ContainsFunc(scenario.Components(), func(name string) bool {
		return component.Is(d.Component, name) || d.Component == component.Leader(name)
	}):
		return "windtunnel cannot " + d.Action + " " + d.Component + " of a cluster that it did not start"
	case d.Client != "" && !slices.Contains(reached, d.Client):
		return "windtunnel cannot put a proxy before " + d.Client + " of a cluster that it did not start"
	case d.Client != "" && d.Action == "slow":
		return "slow of a client needs the certificates of a plane that windtunnel starts"
	}
	return ""
}

// isChange tells a call that changes or deletes something that is there.
func isChange(c *scenario.Call) bool {
	switch c.Verb {
	case "update", "patch", "delete", "deletecollection":
		return true
	case "create":
		return c.Subresource != ""
	}
	return false
}

// ownScope tells whether a call is about the run's namespaces alone.
func (w *Workload) ownScope(r discovery.Resource, c *scenario.Call) bool {
	if !r.Namespaced || c.Namespace == "*" {
		return false
	}
	return !slices.ContainsFunc(w.NamespacesOf(&scenario.Create{Namespace: c.Namespace}), func(name string) bool { return !w.Owns(name) })
}

// NarrowSelector returns the labels by which a call selects: of a call that changes
// something only what is the run's, unless it may change more.
func (w *Workload) NarrowSelector(r discovery.Resource, c *scenario.Call) string {
	if w.Destructive || w.Stamp.Run == "" || !isChange(c) || w.ownScope(r, c) {
		return c.Selector
	}
	own := object.RunLabel + "=" + w.Stamp.Run
	if c.Selector == "" {
		return own
	}
	return c.Selector + "," + own
}
