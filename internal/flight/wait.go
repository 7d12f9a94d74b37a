package flight

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/observe/condition"
	"github.com/windtunnel/windtunnel/scenario"
)

// waitPoll is how often a wait looks at its counts; nothing measured depends on it.
const waitPoll = 25 * time.Millisecond

func (r *run) wait(ctx context.Context, step string, w *scenario.Wait) error {
	if w.Objects != "" {
		return r.waitObjects(ctx, step, w)
	}
	return r.waitPods(ctx, step, w)
}

// waitPods holds until enough pods of a group are in a phase.
func (r *run) waitPods(ctx context.Context, step string, w *scenario.Wait) error {
	deadline := r.clock.Now().Add(time.Duration(w.Within))
	tick := time.NewTicker(waitPoll)
	defer tick.Stop()
	for {
		have, ok := r.reached(w)
		r.status.waiting(step, have, w.Count)
		if ok {
			return nil
		}
		if r.clock.Now() > deadline {
			if w.Are == "gone" {
				return fmt.Errorf("%d pods of group %q are still there after %v, at most %d may be", have, w.Pods, w.Within, w.Count)
			}
			return fmt.Errorf("%d of %d pods of group %q were %s within %v", have, w.Count, w.Pods, w.Are, w.Within)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *run) reached(w *scenario.Wait) (have int, ok bool) {
	c := r.life.Counts(w.Pods)
	switch w.Are {
	case "created":
		have = c.Created
	case "bound":
		have = c.Bound
	case "running":
		have = c.RunningNow
	case "ready":
		have = c.ReadyNow
	case "gone":
		return c.Existing, c.Existing <= w.Count
	}
	return have, have >= w.Count
}

// errWithin ends a wait whose time has passed.
var errWithin = errors.New("the time is up")

// waitObjects holds until a condition is true of enough objects, or they are
// gone.
func (r *run) waitObjects(ctx context.Context, step string, w *scenario.Wait) error {
	o, want, err := r.observer(ctx, w)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(w.Within), errWithin)
	defer cancel()
	watching, stop := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	defer wait.Wait()
	defer stop(nil)
	wait.Go(func() { stop(o.Run(watching, r.watcher, r.clock)) })
	select {
	case <-o.Synced():
	case <-watching.Done():
	}
	for watching.Err() == nil {
		c := o.Counts()
		have, ok := satisfied(c, w, want)
		r.status.waiting(step, have, want)
		if ok {
			return nil
		}
		select {
		case <-o.Changed():
		case <-watching.Done():
		}
	}
	cause := context.Cause(watching)
	if !errors.Is(cause, errWithin) {
		return cause
	}
	return unsatisfied(o.Counts(), w, want)
}

// satisfied tells how many objects are as they should be, and whether that is
// enough.
func satisfied(c condition.Counts, w *scenario.Wait, want int) (have int, ok bool) {
	switch {
	case w.Gone:
		return c.Existing, c.Existing <= w.Count
	case w.All:
		return c.Holding, c.Holding == c.Existing && c.Existing >= w.Count
	}
	return c.Holding, c.Holding >= want
}

func unsatisfied(c condition.Counts, w *scenario.Wait, want int) error {
	var err error
	switch {
	case w.Gone:
		err = fmt.Errorf("%d %s are still there after %v, at most %d may be", c.Existing, w.Objects, w.Within, w.Count)
	case w.All:
		err = fmt.Errorf("of %d %s the condition held for %d within %v; it was wanted of all, and of %d at least", c.Existing, w.Objects, c.Holding, w.Within, w.Count)
	default:
		err = fmt.Errorf("of %d %s the condition held for %d within %v; %d were wanted", c.Existing, w.Objects, c.Holding, w.Within, want)
	}
	if c.Err != nil {
		return fmt.Errorf("%w (for %d of them it could not be evaluated: %w)", err, c.Faulty, c.Err)
	}
	return err
}

// observer makes what follows a wait's objects, and says how many are wanted.
func (r *run) observer(ctx context.Context, w *scenario.Wait) (*condition.Observer, int, error) {
	resource, err := r.served(ctx, func() (discovery.Resource, error) { return r.generator.Resources().Named(ctx, w.Objects) })
	if err != nil {
		return nil, 0, err
	}
	o, want := condition.Options{Path: resource.All()}, w.Count
	if w.Selector != "" {
		o.Selector = "labelSelector=" + url.QueryEscape(w.Selector)
	}
	if !w.Gone {
		if o.Condition, err = scenario.ParseCondition(w.Condition); err != nil {
			return nil, 0, err
		}
	}
	switch {
	case w.Of != "":
		m := r.known(w.Of)
		if m == nil {
			return nil, 0, fmt.Errorf("step %q was not reached: it made nothing", w.Of)
		}
		if want == 0 && !w.Gone {
			want = m.count(resource)
		}
		if o.Mine, err = m.mine(resource, w.Gone); err != nil {
			return nil, 0, err
		}
	case resource.Namespaced && w.Namespace != "" && w.Namespace != "*":
		o.Path = resource.Collection(w.Namespace)
	case resource.Namespaced && w.Namespace == "":
		ours := r.spaces(&scenario.Create{})
		o.Mine = func(namespace, _ string) bool { return slices.Contains(ours, namespace) }
	}
	return condition.New(o), want, nil
}
