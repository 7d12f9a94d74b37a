package flight

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// abortEvery is how often a run looks whether it is to be ended early.
const abortEvery = 500 * time.Millisecond

// watchForAbort ends the context that it returns when what the scenario calls
// abortOn comes to be; stop ends the watching, and says why the steps were ended.
func (r *run) watchForAbort(ctx context.Context) (_ context.Context, stop func() error) {
	a := r.scenario.AbortOn
	if a == nil {
		return ctx, func() error { return nil }
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var wait guard.Group
	wait.Go(func() {
		w := abortWatch{AbortOn: *a}
		for clock.Sleep(ctx, abortEvery) == nil {
			if why := w.checkAbort(r.clock.Now(), r.senders.Progress(), r.senders.FailedForGood(r.workload.Expects)); why != "" {
				cancel(fmt.Errorf("%w: %s", ErrAborted, why))
			}
		}
	})
	return ctx, func() error {
		cause := context.Cause(ctx)
		cancel(nil)
		wait.Wait()
		if errors.Is(cause, ErrAborted) {
			return cause
		}
		return nil
	}
}

// abortWatch knows since when calls are too slow.
type abortWatch struct {
	scenario.AbortOn
	slow  bool
	since clock.Time
}

// checkAbort says why the run is to be ended; empty when it is not. failed are the calls
// that failed for good though nobody expected it.
func (w *abortWatch) checkAbort(now clock.Time, p load.Progress, failed int) string {
	if w.FailedCalls > 0 && failed >= w.FailedCalls {
		return fmt.Sprintf("%s failed (failedCalls: %d)", unit.Count(failed, "calls"), w.FailedCalls)
	}
	over := w.P99 > 0 && p.P99 > time.Duration(w.P99)
	if over && !w.slow {
		w.since = now
	}
	if w.slow = over; over && now.Sub(w.since) >= time.Duration(w.For) {
		return fmt.Sprintf("the p99 of calls was above %v for %v, and is %v (p99)", w.P99, w.For, p.P99.Round(time.Millisecond))
	}
	return ""
}
