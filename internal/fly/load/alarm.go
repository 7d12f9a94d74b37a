package load

import (
	"context"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// alarm lets the goroutine that keeps a pace sleep until a moment, or until
// something wakes it.
type alarm struct {
	clock clock.Clock
	kick  chan struct{}
	timer *time.Timer
}

func newAlarm(c clock.Clock) *alarm {
	return &alarm{clock: c, kick: make(chan struct{}, 1), timer: time.NewTimer(0)}
}

// wakeUp ends a sleep, or the next one. Anyone may call it.
func (a *alarm) wakeUp() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

// sleepUntil returns when the moment has come or wake was called, or with the cause
// of ctx's end.
func (a *alarm) sleepUntil(ctx context.Context, until clock.Time) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var due <-chan time.Time
	if until != distant {
		a.timer.Reset(a.clock.Until(until))
		due = a.timer.C
	}
	select {
	case <-due:
	case <-a.kick:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
