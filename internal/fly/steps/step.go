// Package steps does what the steps of a scenario say: one file for each verb.
// A Session is what they need of the run that they belong to. When a run begins,
// what it measures and how it ends is package flight's.
package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrStep says that a step failed.
var ErrStep = errors.New("step failed")

// stepError is why a step failed. It is an ErrStep.
type stepError struct {
	step string
	why  error
}

// Failed returns the step's name and why.
func (e *stepError) Failed() (string, error) { return e.step, e.why }

func (e *stepError) Error() string   { return fmt.Sprintf("%v: %s: %v", ErrStep, e.step, e.why) }
func (e *stepError) Unwrap() []error { return []error{ErrStep, e.why} }

// Step is something that a run does.
type Step interface {
	Do(context.Context, *Session) error
}

// stepOf returns what does a step of a scenario; failed is why only deletions are
// run. A new verb is a field of scenario.Step, a line here and a file with its
// type, and a line in the estimate of package plan.
func stepOf(s *scenario.Step, failed error) Step {
	if s.Cluster != "" {
		here := *s
		here.Cluster = ""
		return inMembers{step: s, do: stepOf(&here, failed)}
	}
	switch {
	case s.Create != nil:
		return Create{s.Name, s.Create}
	case s.Scale != nil:
		return Scale{s.Name, s.Scale}
	case s.Update != nil:
		return Update{s.Name, s.Update}
	case s.Churn != nil:
		return Churn{s.Name, s.Churn}
	case s.Delete != nil:
		return Delete{s.Name, s.Delete}
	case s.Requests != nil:
		return Requests{s.Name, s.Requests}
	case s.Probe != nil:
		return Probe{s.Name, s.Probe}
	case s.Wait != nil:
		return Wait{Step: s.Name, Spec: s.Wait}
	case s.Settle != nil:
		return Settle{s.Name, s.Settle}
	case s.Fault != nil:
		return Fault{s.Name, s.Fault}
	case s.Upgrade != nil:
		return Upgrade{s.Name, s.Upgrade}
	case s.Exec != nil:
		return Exec{s.Name, s.Exec}
	case s.Network != nil:
		return Network{s.Name, s.Network}
	case s.Parallel != nil:
		return parallel{s.Parallel, failed}
	case s.Sequence != nil:
		return sequence{s.Sequence, failed}
	}
	return Pause(s.Pause)
}

// Run does a scenario's steps, and then takes back what injected faults still
// hold.
func Run(ctx context.Context, s *Session) error {
	defer s.Injected.End()
	if err := s.measureBaseline(ctx); err != nil {
		return err
	}
	return sequence{s.Workload.Scenario.Steps, nil}.Do(ctx, s)
}

// doStep does one step of a scenario, with its begin and end in the records.
func (s *Session) doStep(ctx context.Context, step *scenario.Step, failed error) error {
	err := s.Track(ctx, step.Name, func() error {
		err := stepOf(step, failed).Do(ctx, s)
		if errors.Is(context.Cause(ctx), errBeside) {
			return endBeside(step, err)
		}
		return err
	})
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrStep) {
		return err // that of a step inside has been told
	}
	s.Log.Error("step failed", "step", step.Name, "error", err)
	return &stepError{step.Name, err}
}

// sequence does steps one after another. When one fails and is not marked
// onFailure: continue, only the deletions that follow are still run: they clean
// up, and tell how deletion goes.
type sequence struct {
	steps  []scenario.Step
	failed error // why that is so from the start
}

func (q sequence) Do(ctx context.Context, s *Session) error {
	failed := q.failed
	for i := range q.steps {
		step := &q.steps[i]
		if failed != nil && !hasDelete(step) {
			continue
		}
		err := s.doStep(ctx, step, failed)
		if ctx.Err() != nil {
			return unlessBefore(q.failed, context.Cause(ctx))
		}
		if err != nil && failed == nil && step.OnFailure != "continue" {
			failed = err
		}
	}
	return unlessBefore(q.failed, failed)
}

// unlessBefore is an error, unless there was one before it: that is told already.
func unlessBefore(before, err error) error {
	if before != nil {
		return nil
	}
	return err
}

func hasDelete(s *scenario.Step) bool {
	for one := range s.All() {
		if one.Delete != nil {
			return true
		}
	}
	return false
}

// errBeside ends steps that last as long as those beside them.
var errBeside = errors.New("the steps beside it have ended")

// endBeside is what is told of a step that ended when the steps beside it had. A step that was
// to come to an end of its own is not done when others cut it short. For one that only lasts as
// long as the others, that is its end. A command is stopped then, but not one that had failed before.
func endBeside(step *scenario.Step, err error) error {
	stopped := errors.Is(err, errBeside) || errors.Is(err, context.Canceled)
	var cut *load.CutShortError
	switch {
	case err == nil, step.Exec != nil && stopped, step.Exec == nil && !hasOwnEnd(step, err):
		return nil
	case errors.As(err, &cut) && stopped:
		return fmt.Errorf("%w before this one was done: %d of %d calls were sent", errBeside, cut.Sent, cut.Asked)
	case stopped:
		return fmt.Errorf("%w before this one was done", errBeside)
	}
	return err
}

// hasOwnEnd tells whether a step that ended with an error was to come to an end that does not
// depend on a time: that of a wait, or of so many objects or calls. The calls of a step of
// requests are all sent while it still holds watches. A probe is checked up to where it is ended.
func hasOwnEnd(step *scenario.Step, err error) bool {
	switch {
	case step.Requests != nil:
		return step.Requests.For == 0 && errors.As(err, new(*load.CutShortError))
	case step.Churn != nil:
		return step.Churn.For == 0
	}
	return step.Wait != nil || step.Settle != nil || step.Upgrade != nil ||
		step.Create != nil || step.Scale != nil || step.Update != nil || step.Delete != nil
}

// parallel does steps at the same time and ends when all have ended. One that
// fails does not end the others. Those marked beside are ended when the others have.
type parallel struct {
	steps  []scenario.Step
	failed error // as in sequence
}

func (p parallel) Do(ctx context.Context, s *Session) error {
	errs := make([]error, len(p.steps))
	besideCtx, end := context.WithCancelCause(context.WithValue(ctx, wholeStep{}, ctx))
	defer end(nil)
	var main, beside guard.Group
	for i := range p.steps {
		group, ctx := &main, ctx
		if p.steps[i].Beside {
			group, ctx = &beside, besideCtx
		}
		group.Go(func() {
			if errs[i] = (sequence{p.steps[i : i+1], p.failed}).Do(ctx, s); errors.Is(errs[i], errBeside) {
				errs[i] = nil
			}
		})
	}
	main.Wait()
	end(errBeside)
	beside.Wait()
	return inOneLine(errs)
}

// wholeStep is the key by which the context of a step beside others has that of all of them.
type wholeStep struct{}

// afterBeside returns, when a context has ended because the steps beside it have, the one of
// all of them, which goes on; nil when it has not, or has ended otherwise.
func afterBeside(ctx context.Context) context.Context {
	if !errors.Is(context.Cause(ctx), errBeside) {
		return nil
	}
	whole, _ := ctx.Value(wholeStep{}).(context.Context)
	if errors.Is(context.Cause(whole), errBeside) {
		return afterBeside(whole)
	}
	return whole
}

func inOneLine(errs []error) (out error) {
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

// Pause does nothing for so long.
type Pause time.Duration

// Do sleeps.
func (p Pause) Do(ctx context.Context, _ *Session) error { return clock.Sleep(ctx, time.Duration(p)) }
