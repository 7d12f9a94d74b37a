package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/observe/condition"
	"github.com/windtunnel/windtunnel/internal/fly/steps/inventory"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// Wait waits until pods or objects are as they should be.
type Wait struct {
	Step  string
	Spec  *scenario.Wait
	sight *inventory.Sight // of what it waits for the end of; nil: its own
	ends  clock.Time       // when its time is up; 0: it begins now
}

// Do waits.
func (w Wait) Do(ctx context.Context, s *Session) error {
	if w.sight == nil {
		w.sight = inventory.NewSight()
	}
	if w.ends == 0 {
		w.ends = s.Clock.Now().Add(time.Duration(w.Spec.Within))
	}
	if w.Spec.Objects != "" {
		return w.waitObjects(ctx, s)
	}
	return w.waitPods(ctx, s)
}

// waitPods holds until enough pods of a group are in a phase.
func (w Wait) waitPods(ctx context.Context, s *Session) error {
	if err := w.requirePossible(s); err != nil {
		return err
	}
	for {
		have, ok := w.countPods(s)
		if w.knowsPods(s) {
			w.sight.Note()
		}
		known := w.sight.IsHad()
		ok = ok && known
		s.Progress.Waiting(w.Step, have, w.Spec.Count)
		if ok {
			return nil
		}
		left := s.Clock.Until(w.ends)
		if left <= 0 {
			if !known {
				return fmt.Errorf("no pods of group %q were seen, before or within %v: whether they are gone cannot be told; if none is enough, set wait.optional", w.Spec.Pods, w.Spec.Within)
			}
			if w.Spec.Are == "deleted" {
				return fmt.Errorf("%s of group %q %s still there after %v, at most %d may be%v", unit.Count(have, "pods"), w.Spec.Pods, unit.Verb(have, "is", "are"), w.Spec.Within, w.Spec.Count,
					s.podsBehind(ctx, w.Spec.Pods, w.Spec.Are))
			}
			return w.orNotMade(s, fmt.Errorf("%d of %d pods of group %q were %s within %v%v", have, w.Spec.Count, w.Spec.Pods, w.Spec.Are, w.Spec.Within,
				s.podsBehind(ctx, w.Spec.Pods, w.Spec.Are)))
		}
		if err := clock.Sleep(ctx, min(pollEvery, left)); err != nil { // the last look is when the time is up
			return err
		}
	}
}

// requirePossible is an error where no pod of the group can come, since none of the
// objects that were to bring them could be made.
func (w Wait) requirePossible(s *Session) error {
	if w.Spec.Are == "deleted" {
		return nil
	}
	var first error
	for _, o := range s.Created.ofGroup(w.Spec.Pods) {
		err := o.madeNone()
		if err == nil {
			return nil
		}
		first = cmp.Or(first, err)
	}
	return first
}

// orNotMade adds to an error which objects of the group could not be made.
func (w Wait) orNotMade(s *Session, err error) error {
	for _, o := range s.Created.ofGroup(w.Spec.Pods) {
		if not := o.allMade(); not != nil {
			return fmt.Errorf("%w; %w", err, not)
		}
	}
	return err
}

func (w Wait) countPods(s *Session) (have int, ok bool) {
	c := s.Pods.Counts(w.Spec.Pods)
	switch w.Spec.Are {
	case "created":
		have = c.Created
	case "bound":
		have = c.Bound
	case "running":
		have = c.RunningNow
	case "ready":
		have = c.ReadyNow
	case "deleted":
		return c.Existing, c.Existing <= w.Spec.Count
	}
	return have, have >= w.Spec.Count
}

// errWithin ends a wait whose time has passed.
var errWithin = errors.New("the time is up")

// waitObjects holds until a condition is true of enough objects, or they are
// gone.
func (w Wait) waitObjects(run context.Context, s *Session) error {
	resource, err := s.findNamed(run, w.Spec.Objects)
	if err != nil {
		return err
	}
	o, want, err := w.newObserver(s, resource)
	if err != nil {
		return err
	}
	made := func() error { return nil } // all that the wait is for could be
	if w.Spec.Of != "" && !w.Spec.Deleted {
		made = s.Created.find(w.Spec.Of).allMade
	}
	if w.knowsObjects(s, resource) {
		w.sight.Note()
	}
	defer func() {
		if o.Seen() {
			s.Created.noteSeen(w.Spec.Objects, w.Spec.Selector)
		}
	}()
	ctx, cancel := context.WithTimeoutCause(run, s.Clock.Until(w.ends), errWithin)
	defer cancel()
	watching, stop := context.WithCancelCause(ctx)
	var wait guard.Group
	defer wait.Wait()
	defer stop(nil)
	wait.Go(func() { stop(o.Run(watching, s.Client, s.Clock)) })
	select {
	case <-o.Synced():
	case <-watching.Done():
	}
	had := w.sight.Had()
	for watching.Err() == nil {
		if o.Seen() {
			w.sight.Note()
		}
		c := o.Counts()
		have, ok := w.isSatisfied(c, want)
		s.Progress.Waiting(w.Step, have, want)
		if ok && w.sight.IsHad() {
			return made()
		}
		select {
		case <-o.Changed():
		case <-had:
			had = nil
		case <-watching.Done():
		}
	}
	cause := context.Cause(watching)
	if !errors.Is(cause, errWithin) {
		return cause
	}
	if !w.sight.IsHad() {
		return fmt.Errorf("no %s%s were seen, before or within %v: whether they are gone cannot be told; if none is enough, set wait.optional", w.Spec.Objects, withLabels(w.Spec.Selector), w.Spec.Within)
	}
	late := s.readBehind(run, resource, o.Behind(namedBehind))
	err = fmt.Errorf("%w%v%s", w.unsatisfiedError(o.Counts(), want), late, late.DescribeUnseen(w.Spec.Condition))
	if not := made(); not != nil {
		return fmt.Errorf("%w; %w", err, not)
	}
	return err
}

// knowsPods tells whether a wait for the end of pods may take none for the end: some were there,
// or the group was to have none.
func (w Wait) knowsPods(s *Session) bool {
	if w.Spec.Are != "deleted" || w.Spec.Optional || s.Pods.Counts(w.Spec.Pods).Created > 0 {
		return true
	}
	of := s.Created.ofGroup(w.Spec.Pods)
	return len(of) > 0 && !slices.ContainsFunc(of, func(o *Objects) bool { return o.UpToEver() > 0 })
}

// knowsObjects tells whether there is a reason other than the wait's own watch to think that
// the objects were ever there. Only a wait for their end needs one: what is gone before the
// watch begins, and what a mistyped selector does not fit, look alike.
func (w Wait) knowsObjects(s *Session, r discovery.Resource) bool {
	if !w.Spec.Deleted || w.Spec.Optional || w.Spec.Of != "" {
		return true
	}
	return slices.ContainsFunc([]*Created{s.Created, s.home}, func(c *Created) bool {
		return c != nil && (c.hasSeen(w.Spec.Objects, w.Spec.Selector) || c.mayHaveBrought(r, w.Spec.Selector))
	})
}

// withLabels says which labels objects were to have.
func withLabels(selector string) string {
	if selector == "" {
		return ""
	}
	return " with the labels " + selector
}

// isSatisfied tells how many objects are as they should be, and whether that is
// enough.
func (w Wait) isSatisfied(c condition.Counts, want int) (have int, ok bool) {
	switch {
	case w.Spec.Deleted:
		return c.Existing, c.Existing <= w.Spec.Count
	case w.Spec.All:
		return c.Holding, c.Holding == c.Existing && c.Existing >= w.least()
	}
	return c.Holding, c.Holding >= want
}

// least returns how many objects there must be of which all are wanted. None is enough only
// where the scenario says so: a selector that fits nothing would pass.
func (w Wait) least() int {
	if w.Spec.Optional {
		return 0
	}
	return max(w.Spec.Count, 1)
}

func (w Wait) unsatisfiedError(c condition.Counts, want int) error {
	var err error
	switch {
	case w.Spec.Deleted:
		err = fmt.Errorf("%s %s still there after %v, at most %d may be", unit.Count(c.Existing, w.Spec.Objects), unit.Verb(c.Existing, "is", "are"), w.Spec.Within, w.Spec.Count)
	case w.Spec.All:
		err = fmt.Errorf("of %s the condition held for %d within %v; it was wanted of all, and of %d at least", unit.Count(c.Existing, w.Spec.Objects), c.Holding, w.Spec.Within, w.least())
	default:
		err = fmt.Errorf("of %s the condition held for %d within %v; %d were wanted", unit.Count(c.Existing, w.Spec.Objects), c.Holding, w.Spec.Within, want)
	}
	if c.Err != nil {
		return fmt.Errorf("%w (for %d of them it could not be evaluated: %w)", err, c.Faulty, c.Err)
	}
	return err
}

// newObserver makes what follows a wait's objects, and says how many are wanted.
func (w Wait) newObserver(s *Session, resource discovery.Resource) (*condition.Observer, int, error) {
	var err error
	o, want := condition.Options{Path: resource.All()}, w.Spec.Count
	if w.Spec.Selector != "" {
		o.Selector = "labelSelector=" + url.QueryEscape(w.Spec.Selector)
	}
	if !w.Spec.Deleted {
		if o.Condition, err = scenario.ParseCondition(w.Spec.Condition); err != nil {
			return nil, 0, err
		}
	}
	switch {
	case w.Spec.Of != "":
		made, err := s.Created.findReached(w.Spec.Of)
		if err != nil {
			return nil, 0, err
		}
		if !made.makes(resource) {
			return nil, 0, fmt.Errorf("step %q makes no %s", w.Spec.Of, w.Spec.Objects)
		}
		if want == 0 && !w.Spec.Deleted {
			want = made.countResource(resource)
		}
		if o.Mine, err = made.newMatcher(resource, w.Spec.Deleted); err != nil {
			return nil, 0, err
		}
	case resource.Namespaced && w.Spec.Namespace != "" && w.Spec.Namespace != "*":
		o.Path = resource.Collection(w.Spec.Namespace)
	case resource.Namespaced && w.Spec.Namespace == "":
		ours := s.Workload.NamespacesOf(&scenario.Create{})
		o.Mine = func(namespace, _ string) bool { return slices.Contains(ours, namespace) }
	}
	return condition.New(o), want, nil
}
