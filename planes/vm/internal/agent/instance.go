package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/loop"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// view is what an agent knows of one instance on its node. What follows from
// it is decided here, without a clock, a server or a machine.
type view struct {
	vmi     *api.Instance
	state   state
	timeout time.Duration // of its launcher, from when the instance was handed over; 0: none
	clean   bool          // its disks are unmounted
	ending  bool          // its launcher pod has got the signal to end, which shuts the machine down
	address string        // that its guest would say
	now     time.Time
}

// action is what is to be done with a machine.
type action uint8

const (
	nothing action = iota
	start
	adopt
	stop
	unmount
	forget
)

// nextAction returns the instance as it should be written, and what to do.
func (v view) nextAction() (*api.Instance, action) {
	vmi := v.vmi.Copy()
	switch {
	case vmi.Status.Phase.Final():
		return vmi, forget
	case !vmi.Status.Phase.OnNode():
		return vmi, nothing
	case vmi.DeletionTimestamp != nil, v.ending:
		return vmi, v.nextWhileEnding(vmi)
	case vmi.Status.Phase == api.Scheduled:
		return vmi, v.nextWhileStarting(vmi)
	}
	return vmi, v.nextWhileRunning(vmi)
}

func (v view) nextWhileStarting(vmi *api.Instance) action {
	s := &vmi.Status
	s.Conditions = api.With(s.Conditions, api.Condition{Type: api.ConditionMigratable, Status: corev1.ConditionTrue}, v.now)
	switch v.state {
	case absent, starting:
		if v.isTooLate() {
			s.Enter(api.Failed, v.now)
			s.Reason = "LauncherTimeout"
			return forget
		}
		if v.state == absent {
			return start
		}
	case running, answering:
		s.Enter(api.Running, v.now)
	case broken:
		s.Enter(api.Failed, v.now)
		s.Reason = "StartFailed"
		return forget
	}
	return nothing
}

// isTooLate says that the launcher, which began with its pod, has given up to wait for its machine.
func (v view) isTooLate() bool {
	since := api.Entered(v.vmi.Status.PhaseTransitionTimestamps, api.Scheduled)
	return v.timeout > 0 && !since.IsZero() && v.now.Sub(since) > v.timeout
}

func (v view) nextWhileRunning(vmi *api.Instance) action {
	switch v.state {
	case absent:
		return adopt
	case answering:
		if len(vmi.Status.Interfaces) == 0 {
			vmi.Status.Interfaces = []api.Interface{{Name: "default", IP: v.address}}
		}
	}
	return nothing
}

// nextWhileEnding takes a machine away: shut down, unmounted, reported.
func (v view) nextWhileEnding(vmi *api.Instance) action {
	switch v.state {
	case starting, running, answering:
		return stop
	case stopping:
		return nothing
	case absent:
		if vmi.Status.Phase == api.Running && !v.clean {
			return adopt // an earlier agent started it: it is shut down first
		}
	}
	if !v.clean {
		return unmount
	}
	if vmi.Status.Phase == api.Running {
		vmi.Status.Enter(api.Succeeded, v.now)
	} else {
		vmi.Status.Enter(api.Failed, v.now)
	}
	return nothing
}

// reconcile brings one instance on this node a step further.
func (n *node) reconcile(ctx context.Context, key string) error {
	var failed error
	if coming := slim.Get[*api.Instance](n.target, key); coming != nil {
		failed = n.acceptMigration(ctx, coming)
	}
	vmi := slim.Get[*api.Instance](n.source, key)
	if vmi == nil {
		return failed
	}
	if n.hasDeparted(vmi) {
		return errors.Join(failed, n.finishDeparture(ctx, vmi))
	}
	v := view{vmi: vmi, timeout: n.o.QEMUTimeout, now: n.o.Now(), address: n.guestAddress(vmi)}
	v.state = n.domains.stateOf(vmi.UID)
	v.clean, v.ending = n.domains.setUnmounted(vmi.UID, false), n.podEnds(vmi)
	out, do := v.nextAction()
	if err := n.doAction(ctx, key, vmi, do); err != nil {
		return errors.Join(failed, err)
	}
	if err := n.writeInstance(ctx, vmi, out); err != nil {
		return errors.Join(failed, err)
	}
	if do == forget { // only now: until the server knows, the next try must find it as it is
		n.domains.forgetMachine(vmi.UID)
		n.forgetFaults(vmi)
	}
	return errors.Join(failed, n.startMigration(ctx, vmi))
}

func (n *node) doAction(ctx context.Context, key string, vmi *api.Instance, do action) error {
	switch do {
	case start:
		over := n.domains.startMachine(ctx, vmi)
		if n.o.Starts == StartsWorker {
			awaitStart(ctx, over, n.o.QEMUTimeout)
		}
		n.events.Event(vmi, corev1.EventTypeNormal, "Created", "VirtualMachineInstance defined.")
		if n.o.QEMUTimeout > 0 {
			n.loop.Queue.AddAfter(key, n.o.QEMUTimeout+time.Second)
		}
	case adopt:
		n.domains.adoptMachine(ctx, vmi)
		n.loop.Queue.Add(key) // it may have to be shut down
	case stop:
		n.domains.stopMachine(ctx, vmi)
		n.events.Event(vmi, corev1.EventTypeNormal, "ShuttingDown", "Signaled Graceful Shutdown")
	case unmount:
		return n.unmountDisks(ctx, key, vmi)
	}
	return nil
}

// awaitStart waits until a start is over, at most for as long as a launcher does; 0: without a bound.
func awaitStart(ctx context.Context, over <-chan struct{}, most time.Duration) {
	if most > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, most)
		defer cancel()
	}
	select {
	case <-over:
	case <-ctx.Done():
	}
}

// unmountDisks cleans up after a machine, or fails as the faults say.
func (n *node) unmountDisks(ctx context.Context, key string, vmi *api.Instance) error {
	f, model := n.o.Faults, n.o.Model
	if n.hit.Matches(labelsOf(vmi)) {
		if n.dice.isHit(vmi, "unmount", f.UnmountShare) && n.faultLasts(vmi, f.UnmountFor) {
			return n.failToUnmount(ctx, vmi)
		}
		if n.dice.isHit(vmi, "stuck", f.StuckShare) && n.faultLasts(vmi, f.StuckFor) {
			n.loop.Queue.AddAfter(key, time.Second)
			return nil
		}
	}
	if err := n.domains.runInSlot(ctx, func() error { return clock.Sleep(ctx, model.Unmount) }); err != nil {
		return err
	}
	n.domains.setUnmounted(vmi.UID, true)
	n.mu.Lock()
	delete(n.faulty, vmi.UID)
	n.mu.Unlock()
	n.loop.Queue.Add(key)
	return nil
}

// failToUnmount costs what a failing unmount costs: a turn among the starts,
// an event, and a retry.
func (n *node) failToUnmount(ctx context.Context, vmi *api.Instance) error {
	if err := n.domains.runInSlot(ctx, func() error { return clock.Sleep(ctx, n.o.Faults.UnmountTakes) }); err != nil {
		return err
	}
	n.events.Event(vmi, corev1.EventTypeWarning, "SyncFailed", errUnmount.Error())
	return fmt.Errorf("%w (%w)", errUnmount, loop.ErrQuiet)
}

// faultLasts says whether a fault that began when it was first asked for goes on.
func (n *node) faultLasts(vmi *api.Instance, d time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.o.Clock.Now()
	since, ok := n.faulty[vmi.UID]
	if !ok {
		since = now
		n.faulty[vmi.UID] = now
	}
	return now.Sub(since) < d
}

// forgetFaults lets go of what was remembered of an instance.
func (n *node) forgetFaults(vmi *api.Instance) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.faulty, vmi.UID)
}

// writeInstance brings what changed to the server. The agent owns the instance, so it
// writes all of it; a write that overlaps a patch of the controller's fails and
// goes again.
func (n *node) writeInstance(ctx context.Context, old, now *api.Instance) error {
	if reflect.DeepEqual(old.Status, now.Status) && reflect.DeepEqual(old.Labels, now.Labels) {
		return nil
	}
	part := []string{}
	if n.o.StatusSubresource {
		part = append(part, "status")
	}
	_, err := n.client.Instances.Update(ctx, now, part...)
	if apierrors.IsNotFound(err) {
		return nil // it is gone; its event comes
	}
	if err == nil && old.Status.Phase != now.Status.Phase && now.Status.Phase == api.Running {
		n.events.Event(now, corev1.EventTypeNormal, "Started", "VirtualMachineInstance started.")
	}
	return err
}
