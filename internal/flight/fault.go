package flight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/plane/proxy"
	"github.com/windtunnel/windtunnel/scenario"
)

// errNoFault says that a plane or a fleet cannot be disturbed in a way.
var errNoFault = errors.New("it cannot be disturbed like that")

// mendTime bounds how long taking a fault back may last.
const mendTime = 3 * time.Minute

// faulted takes note of what was done to a component.
func (r *run) faulted(f plane.Fault) {
	r.journal().Disturbed(f)
	if f.Kind != plane.FaultStart || r.meter == nil {
		return
	}
	if c, ok := r.plane.Component(f.Component); ok {
		r.meter.Follow(usage.Process{Name: c.Name, PID: c.PID, Cgroup: c.Cgroups["cpu"], Memory: c.Cgroups["memory"]})
	}
}

// through puts relays before the clients of a plane that exists: those of one
// that we start are there from the start.
func (r *run) through() error {
	if r.options.Kubeconfig == "" {
		return nil
	}
	for _, name := range r.relayed() {
		if _, err := r.plane.Through(name); err != nil {
			return fmt.Errorf("%w: %w", errNoFault, err)
		}
	}
	return nil
}

// relayed names whose connections lead through a relay, because a step disturbs
// them.
func (r *run) relayed() []string {
	var out []string
	for s := range r.scenario.AllSteps() {
		if s.Fault != nil && s.Fault.Client != "" && !slices.Contains(out, s.Fault.Client) {
			out = append(out, s.Fault.Client)
		}
	}
	return out
}

// faults are those that hold.
type faults struct {
	log  *slog.Logger // nil: none
	wait sync.WaitGroup
	mu   sync.Mutex
	over []chan struct{} // closed when the run ends
}

// begin breaks something by making, and mends it later: at the end of the
// fault's time, or of the run. It returns at once unless the fault is held.
func (f *faults) begin(ctx context.Context, d *scenario.Disturbance, making func(context.Context) (func(context.Context) error, error)) error {
	mend, err := making(ctx)
	if err != nil {
		return err
	}
	undo := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), mendTime)
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
		if err := undo(); err != nil && f.log != nil {
			f.log.Error("a fault could not be taken back", slog.String("action", d.Action), slog.Any("error", err))
		}
	})
	return nil
}

// end takes back every fault that still holds, and waits for it.
func (f *faults) end() {
	f.mu.Lock()
	for _, over := range f.over {
		close(over)
	}
	f.over = nil
	f.mu.Unlock()
	f.wait.Wait()
}

func (r *run) fault(ctx context.Context, step string, d *scenario.Disturbance) error {
	return r.faults.begin(ctx, d, func(ctx context.Context) (func(context.Context) error, error) {
		mend, err := r.disturb(ctx, d)
		if err != nil {
			return nil, err
		}
		if d.Component != "" {
			return mend, nil // journalled when it hits
		}
		r.journal().FaultBegan(step, d.Action)
		return func(ctx context.Context) error {
			err := mend(ctx)
			r.journal().FaultEnded(step, d.Action)
			return err
		}, nil
	})
}

// disturb does what a fault step says, and returns what undoes it.
func (r *run) disturb(ctx context.Context, d *scenario.Disturbance) (mend func(context.Context) error, err error) {
	switch {
	case d.Component != "":
		return r.disturbComponent(ctx, d)
	case d.Client != "":
		return r.disturbClient(d)
	case r.fleet == nil:
		return nil, fmt.Errorf("%s of nodes or pods: no fleet: %w", d.Action, errNoFault)
	}
	undo, err := r.fleet.Disturb(ctx, *d)
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { undo(); return nil }, nil
}

func (r *run) disturbComponent(ctx context.Context, d *scenario.Disturbance) (func(context.Context) error, error) {
	c, ok := r.plane.Component(d.Component)
	if !ok {
		return nil, fmt.Errorf("%s %s: the plane has no such component: %w", d.Action, d.Component, errNoFault)
	}
	switch d.Action {
	case "kill":
		return c.Restart, c.Kill()
	case "pause":
		return func(context.Context) error { return c.Continue() }, c.Pause()
	case "restart":
		return func(context.Context) error { return nil }, c.Restart(ctx)
	case "slow":
		return func(context.Context) error { return c.FullSpeed() }, c.Slow(d.Share * cores(c))
	}
	return nil, fmt.Errorf("%s %s: %w", d.Action, d.Component, errNoFault)
}

// cores is how many a component may use.
func cores(c plane.Component) float64 {
	if c.CPULimit > 0 {
		return c.CPULimit
	}
	return float64(runtime.NumCPU())
}

func (r *run) disturbClient(d *scenario.Disturbance) (func(context.Context) error, error) {
	way := r.plane.Relay(d.Client)
	if way == nil {
		return nil, fmt.Errorf("%s %s: its connections cannot be led through a relay: %w", d.Action, d.Client, errNoFault)
	}
	if d.Action == "cut" {
		err := way.Refuse(true)
		way.Cut()
		return func(context.Context) error { return way.Refuse(false) }, err
	}
	reshape := func(change func(*proxy.Shape)) error { // a way may be longer and its answers slower at the same time
		r.faults.mu.Lock()
		defer r.faults.mu.Unlock()
		shape := way.Shape()
		change(&shape)
		return way.Set(shape)
	}
	if d.Action == "slow" {
		if r.options.Kubeconfig != "" {
			return nil, fmt.Errorf("slow %s: the relay sees single calls only where windtunnel made the certificates: %w", d.Client, errNoFault)
		}
		return func(context.Context) error { return reshape(func(s *proxy.Shape) { s.AnswerFactor = 0 }) },
			reshape(func(s *proxy.Shape) { s.AnswerFactor = d.Factor })
	}
	return func(context.Context) error { return reshape(func(s *proxy.Shape) { s.RoundTrip = 0 }) },
		reshape(func(s *proxy.Shape) { s.RoundTrip = time.Duration(d.RoundTrip) })
}

// stretches says whether a step makes single answers slower, for which relays
// must see the calls.
func (r *run) stretches() bool {
	for s := range r.scenario.AllSteps() {
		if s.Fault != nil && s.Fault.Client != "" && s.Fault.Action == "slow" {
			return true
		}
	}
	return false
}
