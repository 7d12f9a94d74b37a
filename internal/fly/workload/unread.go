package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/scenario"
)

// checkUpdates finds variables of updates that no template reads: the objects would stay as they
// are, and the calls would succeed. Importers set variables for all templates alike.
func (w *Workload) checkUpdates() error {
	made := map[string]*scenario.Step{}
	var faults []error
	for step := range w.Scenario.AllSteps() {
		if step.Create != nil {
			made[step.Name] = step
		}
		x := step.Update
		if x == nil || made[x.Step] == nil {
			continue
		}
		read, known := w.variablesOf(bodiesUpdated(x, made[x.Step]))
		for _, name := range slices.Sorted(maps.Keys(x.With)) {
			if known && !slices.Contains(read, name) {
				faults = append(faults, fmt.Errorf("%s: update.with: no template of the step reads .%s, so that it would change nothing", w.PlaceOfStep(step), name))
			}
		}
	}
	return errors.Join(faults...)
}

// bodiesUpdated returns the bodies that an update renders.
func bodiesUpdated(x *scenario.Update, made *scenario.Step) []string {
	if one := cmp.Or(x.Body, x.Object); one != "" {
		return []string{one}
	}
	return bodiesMade(made)
}

// variablesOf returns what templates of the scenario's own dialect read; unknown where one is of
// another tool or hands all variables to a function.
func (w *Workload) variablesOf(names []string) (read []string, known bool) {
	for _, name := range names {
		if !isOwn(w.Scenario.Bodies[name]) {
			return nil, false
		}
		variables, whole := w.Bodies[name].Variables()
		if whole {
			return nil, false
		}
		read = append(read, variables...)
	}
	return read, true
}
