package workload

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrNotShared says that something has no way to be sent by several workers.
var ErrNotShared = errors.New("it cannot be shared among workers")

// CheckSharable joins an error for each step whose calls cannot be shared among so
// many workers such that their calls together are those of one, with what can be
// done. It is asked before anything is started.
func (w *Workload) CheckSharable(workers int) error {
	var errs []error
	most := 0
	for step := range w.Scenario.AllSteps() {
		if n := step.Network; n != nil && n.To.Worker != nil {
			most = max(most, *n.To.Worker+1) // who answers has something to do
		}
		if step.Pace() == nil {
			if step.Parallel != nil {
				errs = append(errs, checkBranches(step))
			}
			continue
		}
		if err := w.explainUnsharable(step, workers); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: %w", w.File, step.Line, step.Name, err))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Bodies)) {
		if w.Bodies[name].Calls(kubeconfigFunction) {
			errs = append(errs, fmt.Errorf("%s: body %q: %w: it contains kubeconfigs of members, which only one sender has; run it without --workers", w.placeOf(name), name, ErrNotShared))
		}
	}
	estimate, err := w.Estimate()
	errs = append(errs, err)
	for _, one := range estimate.Steps {
		most = max(most, one.Calls)
	}
	if err == nil && !estimate.Unbounded && most < workers {
		errs = append(errs, fmt.Errorf("%s: no step has work for more than %d, and there are %s: some would have nothing to do; use --workers %d or fewer", w.File, most, unit.Count(workers, "workers"), max(1, most)))
	}
	return errors.Join(errs...)
}

// explainUnsharable says why a step's calls cannot be shared.
func (w *Workload) explainUnsharable(step *scenario.Step, workers int) error {
	closed := step.Pace().Closed
	switch {
	case step.Beside:
		return fmt.Errorf("%w: it ends when the steps beside it do, which only one sender knows; run it without --workers", ErrNotShared)
	case step.Clients != nil:
		return fmt.Errorf("%w: its clients and their rate limiters are in one process; run it without --workers", ErrNotShared)
	case step.Cluster != "":
		return fmt.Errorf("%w: it is done in members, which only one sender reaches; run it without --workers", ErrNotShared)
	case step.Churn != nil && step.Churn.Namespaces != "":
		return fmt.Errorf("%w: what it makes again depends on which namespaces are gone; churn the objects, not their namespaces, or run it without --workers", ErrNotShared)
	case step.Probe != nil:
		return fmt.Errorf("%w: its records are of one sender; run it without --workers", ErrNotShared)
	case closed > 0 && closed < workers:
		return fmt.Errorf("%w: %s at a time: fewer than %d workers; use --workers %d or fewer, or closed: %d or more", ErrNotShared, unit.Count(closed, "calls"), workers, closed, workers)
	case step.Requests != nil:
		return unsharableMix(step.Requests)
	}
	return nil
}

// unsharableMix says why a mix cannot be shared: what one worker deletes another one
// would still use.
func unsharableMix(r *scenario.Requests) error {
	for i := range r.Mix {
		if c := &r.Mix[i]; c.Verb == "delete" && c.Of != "" {
			return fmt.Errorf("%w: its mix deletes objects of step %q, and calls about what is gone are left out, which other workers cannot know in time; use a delete step, or churn", ErrNotShared, c.Of)
		}
	}
	return nil
}

// checkBranches says where one branch of a parallel step uses what another one makes
// or deletes: what workers know of each other's objects is brought up to date between
// steps, not within one.
func checkBranches(group *scenario.Step) error {
	type use struct{ uses, changes map[string]bool }
	var all []use
	for i := range group.Parallel {
		u := use{map[string]bool{}, map[string]bool{}}
		for step := range group.Parallel[i].All() {
			uses, changes := objectsOf(step)
			for _, name := range uses {
				u.uses[name] = true
			}
			if changes != "" {
				u.changes[changes] = true
			}
		}
		all = append(all, u)
	}
	for i := range all {
		for j := range all {
			for _, name := range slices.Sorted(maps.Keys(all[i].changes)) {
				if i != j && all[j].uses[name] {
					return fmt.Errorf("step %q, line %d: %w: one of its branches makes or deletes objects of step %q, and another one uses them; put these branches one after another, or run it without --workers",
						group.Name, group.Line, ErrNotShared, name)
				}
			}
		}
	}
	return nil
}

// objectsOf returns the create steps whose objects a step's calls are about, and the
// one whose objects it makes or deletes.
func objectsOf(step *scenario.Step) (uses []string, changes string) {
	switch {
	case step.Create != nil:
		changes = step.Name
	case step.Scale != nil:
		changes = step.Scale.Step
	case step.Churn != nil:
		changes = step.Churn.Step
	case step.Delete != nil:
		changes = step.Delete.Step
	case step.Update != nil:
		return []string{step.Update.Step}, ""
	case step.Requests != nil:
		for i := range step.Requests.Mix {
			if of := step.Requests.Mix[i].Of; of != "" {
				uses = append(uses, of)
			}
		}
		return uses, ""
	}
	if changes != "" {
		uses = []string{changes}
	}
	return uses, changes
}

// CheckAnswers joins an error for each step whose path ends at a worker that is not among
// so many. It is asked before anything is started.
func (w *Workload) CheckAnswers(workers int) error {
	var errs []error
	for step := range w.Scenario.AllSteps() {
		if n := step.Network; n != nil && n.To.Worker != nil && *n.To.Worker >= workers {
			errs = append(errs, fmt.Errorf("%s:%d: step %q: network.to.worker: %d is not among %s; run it with --workers %d or more", w.File, step.Line, step.Name, *n.To.Worker, unit.Count(workers, "workers"), *n.To.Worker+1))
		}
	}
	return errors.Join(errs...)
}
