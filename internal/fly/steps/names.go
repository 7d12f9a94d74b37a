package steps

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/scenario"
)

// How many objects of a step are looked at for their names, and how many bytes are rendered for
// that: the first tell of a fixed name, and of names that recur soon.
const (
	namesLooked   = 512
	namesRendered = 16 << 20
)

// checkNames joins an error for each create step of which two objects, or one and an object of a
// step before it, have one name, unless the step expects that refusal. Bodies of other tools'
// files go on where an object is there.
func checkNames(w *workload.Workload, made map[string]*Objects) error {
	var errs []error
	names := workload.MadeNames{}
	for step := range w.Scenario.AllSteps() {
		if workload.DeletesObjects(step) {
			clear(names)
		}
		if o := made[step.Name]; o != nil && !w.Expects(step.Name, http.StatusConflict) {
			if err := addNames(names, step, o); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", w.PlaceOfStep(step), err))
			}
		}
	}
	return errors.Join(errs...)
}

// addNames adds the objects of a step.
func addNames(names workload.MadeNames, step *scenario.Step, o *Objects) error {
	to, rendered := max(step.Create.Count, step.Create.PerNamespace), 0
	global := make([]bool, len(o.items)) // objects of the item are in no namespace
	for k, it := range o.items {
		global[k] = workload.HasNoNamespace(it.body.APIVersion(), it.body.Kind())
	}
	for i := range min(o.layout.Count(0, to), namesLooked) {
		n := o.layout.Ordinal(i, 0, to)
		it := &o.items[n.Item]
		if !it.strict || !it.namesSelf && n.Index > 0 { // names of ours differ within a step
			continue
		}
		at := workload.Made{Cluster: step.Cluster, APIVersion: it.body.APIVersion(), Kind: it.body.Kind(), Namespace: o.namespaceOf(n), Name: o.nameOf(n)}
		if it.namesSelf {
			raw, err := it.body.Render(nil, o.varsOf(n))
			about, wrong := object.ReadMetadata(raw)
			if rendered += len(raw); err != nil || wrong != nil || rendered > namesRendered {
				return nil // the step says what is wrong with it
			}
			if at.Name = about.Name; about.Namespace != "" {
				at.Namespace = about.Namespace
			}
		}
		if global[n.Item] {
			at.Namespace = ""
		}
		if at.Name == "" { // the server makes it up
			continue
		}
		if err := names.Add(at, step.Name, it.Body); err != nil {
			return err
		}
	}
	return nil
}
