package flight

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrStep says that a step did not do what it should.
var ErrStep = errors.New("step failed")

// steps runs the scenario's steps, and then takes back what faults still hold.
func (r *run) steps(ctx context.Context) error {
	defer r.faults.end()
	if err := r.levels(ctx); err != nil {
		return err
	}
	return r.sequence(ctx, r.scenario.Steps, nil)
}

// sequence runs steps one after another. When one fails and is not marked
// onFailure: continue, only the deletions that follow are still run: they clean
// up, and tell how deletion goes. failed is why that is so from the start.
func (r *run) sequence(ctx context.Context, steps []scenario.Step, failed error) error {
	for i := range steps {
		s := &steps[i]
		if failed != nil && !deletes(s) {
			continue
		}
		err := r.oneStep(ctx, s, failed)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil && failed == nil && s.OnFailure != "continue" {
			failed = err
		}
	}
	return failed
}

// deletes tells whether a step has a deletion in it.
func deletes(s *scenario.Step) bool {
	for one := range s.All() {
		if one.Delete != nil {
			return true
		}
	}
	return false
}

// oneStep runs a step with its marks; failed is why only deletions are run.
func (r *run) oneStep(ctx context.Context, s *scenario.Step, failed error) error {
	err := r.step(ctx, s.Name, func() error {
		switch {
		case s.Parallel != nil:
			return r.parallel(ctx, s.Parallel, failed)
		case s.Sequence != nil:
			return fresh(r.sequence(ctx, s.Sequence, failed), failed)
		}
		return r.do(ctx, s)
	})
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrStep) {
		return err // that of a step inside has been told
	}
	r.log.Error("step failed", "step", s.Name, "error", err)
	return fmt.Errorf("%w: %s: %w", ErrStep, s.Name, err)
}

// fresh is an error that was not there before.
func fresh(err, before error) error {
	if before != nil {
		return nil
	}
	return err
}

// parallel runs steps at the same time and returns when all have ended. One that
// fails does not end the others.
func (r *run) parallel(ctx context.Context, steps []scenario.Step, failed error) error {
	errs := make([]error, len(steps))
	var wait sync.WaitGroup
	for i := range steps {
		wait.Go(func() { errs[i] = r.sequence(ctx, steps[i:i+1], failed) })
	}
	wait.Wait()
	return fresh(joined(errs), failed)
}

// joined is all errors in one line.
func joined(errs []error) (out error) {
	for _, err := range errs {
		switch {
		case err == nil:
		case out == nil:
			out = err
		default:
			out = fmt.Errorf("%w; %w", out, err)
		}
	}
	return out
}

// do does what a step says.
func (r *run) do(ctx context.Context, s *scenario.Step) error {
	switch {
	case s.Create != nil:
		return r.createObjects(ctx, s.Name, s.Create)
	case s.Scale != nil:
		return r.scale(ctx, s.Name, s.Scale)
	case s.Update != nil:
		return r.update(ctx, s.Name, s.Update)
	case s.Churn != nil:
		return r.churn(ctx, s.Name, s.Churn)
	case s.Delete != nil:
		return r.deleteObjects(ctx, s.Name, s.Delete)
	case s.Requests != nil:
		return r.requests(ctx, s.Name, s.Requests)
	case s.Wait != nil:
		return r.wait(ctx, s.Name, s.Wait)
	case s.Cool != nil:
		return r.cool(ctx, s.Cool)
	case s.Fault != nil:
		return r.fault(ctx, s.Name, s.Fault)
	case s.Exec != nil:
		return r.hook(ctx, s.Name, s.Exec)
	}
	return clock.Sleep(ctx, time.Duration(s.Pause))
}
