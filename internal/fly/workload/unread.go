package workload

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/scenario"
)

// checkUpdates finds updates that change nothing, though their calls would succeed: variables
// that no template reads, and values that the objects have from the start. Importers set
// variables for all templates alike.
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
		if len(x.With) > 0 && x.Body == "" && !w.changesAny(x.Step, made[x.Step].Create.With) {
			faults = append(faults, fmt.Errorf("%s: update.with: step %s creates its objects with the same values, so that it would change nothing", w.PlaceOfStep(step), x.Step))
		}
	}
	return errors.Join(faults...)
}

// changesAny reports whether any update of what a step created sets another value than it had.
func (w *Workload) changesAny(created string, had map[string]any) bool {
	for step := range w.Scenario.AllSteps() {
		if step.Update == nil || step.Update.Step != created {
			continue
		}
		for name, value := range step.Update.With {
			if before, ok := had[name]; !ok || fmt.Sprint(before) != fmt.Sprint(value) {
				return true
			}
		}
	}
	return false
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
