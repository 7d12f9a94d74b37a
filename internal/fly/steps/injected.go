package steps

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/scenario"
)

// undoTime bounds how long taking a fault back may last.
const undoTime = 3 * time.Minute

// Injected is the faults that hold.
type Injected struct {
	Log  *slog.Logger
	wait guard.Group
	mu   sync.Mutex
	over []chan struct{} // closed when the run ends
	held sync.Map        // what faults that hold have changed: a set of strings
}

// errHeld says that a fault would change what an earlier one has changed and will take back.
var errHeld = errors.New("an earlier fault of this kind still holds: the end of one would end both")

// hold has a fault change something of a target until it is mended, unless an earlier one
// holds that.
func (f *Injected) hold(d *scenario.Disturbance, target string, inject func() (func(context.Context) error, error)) (func(context.Context) error, error) {
	if d.Action == "restart" || d.Action == "rollback" {
		return inject() // over in a moment: nothing is taken back
	}
	what := d.Action + " " + target
	if _, taken := f.held.LoadOrStore(what, true); taken {
		return nil, fmt.Errorf("%s: %w", what, errHeld)
	}
	mend, err := inject()
	if err != nil {
		f.held.Delete(what)
		return nil, err
	}
	return func(ctx context.Context) error {
		defer f.held.Delete(what)
		return mend(ctx)
	}, nil
}

// beginFault breaks something by making, and mends it later: at the end of the
// fault's time, or of the run. It returns at once unless the fault is held.
func (f *Injected) beginFault(ctx context.Context, d *scenario.Disturbance, making func(context.Context) (func(context.Context) error, error)) error {
	mend, err := making(ctx)
	if err != nil {
		return err
	}
	undo := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		return mend(ctx)
	}
	if d.Hold {
		return errors.Join(clock.Sleep(ctx, time.Duration(d.For)), undo())
	}
	over := make(chan struct{})
	f.mu.Lock()
	f.over = append(f.over, over)
	f.mu.Unlock()
	f.wait.Go(func() {
		var due <-chan time.Time
		if d.For > 0 {
			timer := time.NewTimer(time.Duration(d.For))
			defer timer.Stop()
			due = timer.C
		}
		select {
		case <-due:
		case <-over:
		}
		if err := undo(); err != nil {
			f.Log.Error("a fault was not done, or could not be taken back", slog.String("action", d.Action), slog.Any("error", err))
		}
	})
	return nil
}

// End takes back every fault that still holds, and waits for it.
func (f *Injected) End() {
	f.mu.Lock()
	for _, over := range f.over {
		close(over)
	}
	f.over = nil
	f.mu.Unlock()
	f.wait.Wait()
}
