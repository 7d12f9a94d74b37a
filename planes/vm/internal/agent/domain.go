package agent

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// state is what a machine on this node does.
type state uint8

const (
	absent   state = iota // nothing is known of it
	starting              // waits for its turn to start, or starts
	running
	answering // runs, and its guest says its addresses
	stopping
	stopped
	broken // it could not be started
)

// machine is what runs a virtual machine: the model, or QEMU.
type machine interface {
	Start(ctx context.Context, vmi *api.Instance) error // returns when it runs
	Guest(ctx context.Context, vmi *api.Instance) error // returns when the guest answers
	Stop(ctx context.Context, vmi *api.Instance) error  // returns when it is off
}

// domains are the machines of one node. Their starts and unmounts take turns
// in a bounded number of slots, in the order in which they were asked for.
type domains struct {
	machine machine
	changed func(key string) // called without the lock
	slots   chan struct{}
	wait    sync.WaitGroup

	mu    sync.Mutex
	byUID map[types.UID]*domain
}

type domain struct {
	state  state
	clean  bool   // its disks are unmounted
	busy   string // the migration that it does
	cancel context.CancelFunc
}

func newDomains(m machine, slots int, changed func(string)) *domains {
	return &domains{machine: m, changed: changed, slots: make(chan struct{}, slots), byUID: map[types.UID]*domain{}}
}

// stateOf returns what a machine does.
func (d *domains) stateOf(uid types.UID) state {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.byUID[uid]; x != nil {
		return x.state
	}
	return absent
}

// startMachine starts a machine in the background; its end is told by changed. What it returns
// is closed when the machine runs, or does not start any more.
func (d *domains) startMachine(ctx context.Context, vmi *api.Instance) <-chan struct{} {
	over := make(chan struct{})
	ctx, x := d.addDomain(ctx, vmi.UID, starting)
	if x == nil {
		close(over)
		return over
	}
	d.wait.Go(func() {
		err := d.runInSlot(ctx, func() error { return d.machine.Start(ctx, vmi) })
		close(over)
		if err != nil {
			if ctx.Err() == nil {
				d.moveState(vmi, x, starting, broken)
			}
			return
		}
		if d.moveState(vmi, x, starting, running) {
			d.awaitGuest(ctx, vmi, x)
		}
	})
	return over
}

// adoptMachine takes a machine that runs already: an earlier agent started it, or it
// has moved here.
func (d *domains) adoptMachine(ctx context.Context, vmi *api.Instance) {
	if ctx, x := d.addDomain(ctx, vmi.UID, running); x != nil {
		d.wait.Go(func() { d.awaitGuest(ctx, vmi, x) })
	}
}

func (d *domains) awaitGuest(ctx context.Context, vmi *api.Instance, x *domain) {
	if d.machine.Guest(ctx, vmi) == nil {
		d.moveState(vmi, x, running, answering)
	}
}

// stopMachine shuts a machine down; one that has not started will not.
func (d *domains) stopMachine(ctx context.Context, vmi *api.Instance) {
	d.mu.Lock()
	x := d.byUID[vmi.UID]
	if x == nil || x.state >= stopping {
		d.mu.Unlock()
		return
	}
	was := x.state
	x.cancel()
	x.state = stopping
	d.mu.Unlock()
	d.wait.Go(func() {
		if was == running || was == answering {
			if d.machine.Stop(ctx, vmi) != nil {
				return // the agent ends
			}
		}
		d.moveState(vmi, x, stopping, stopped)
	})
}

// runJob does something for a machine in the background once, such as a migration.
func (d *domains) runJob(ctx context.Context, vmi *api.Instance, job string, work func(context.Context)) {
	d.mu.Lock()
	x := d.byUID[vmi.UID]
	if x == nil || x.busy == job {
		d.mu.Unlock()
		return
	}
	x.busy = job
	d.mu.Unlock()
	d.wait.Go(func() { work(ctx) })
}

// runInSlot waits for a slot and works in it.
func (d *domains) runInSlot(ctx context.Context, work func() error) error {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.slots }()
	return work()
}

// setUnmounted says, and remembers with yes, that a machine's disks are unmounted.
func (d *domains) setUnmounted(uid types.UID, yes bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	x := d.byUID[uid]
	if x == nil {
		if !yes {
			return false
		}
		x = &domain{state: stopped, cancel: func() {}}
		d.byUID[uid] = x
	}
	x.clean = x.clean || yes
	return x.clean
}

// forgetMachine drops a machine; one that still runs is ended.
func (d *domains) forgetMachine(uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if x := d.byUID[uid]; x != nil {
		x.cancel()
		delete(d.byUID, uid)
	}
}

func (d *domains) addDomain(ctx context.Context, uid types.UID, s state) (context.Context, *domain) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byUID[uid] != nil {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	x := &domain{state: s, cancel: cancel}
	d.byUID[uid] = x
	return ctx, x
}

// moveState changes a state, unless somebody else has, and tells.
func (d *domains) moveState(vmi *api.Instance, x *domain, from, to state) bool {
	d.mu.Lock()
	ok := x.state == from
	if ok {
		x.state = to
	}
	d.mu.Unlock()
	if ok {
		d.changed(vmi.Namespace + "/" + vmi.Name)
	}
	return ok
}

// modelled is a machine of which only the time passes.
type modelled struct{ dice }

// Start takes as long as the model says.
func (m modelled) Start(ctx context.Context, vmi *api.Instance) error {
	return clock.Sleep(ctx, m.drawDuration(vmi, "start", m.model.Start))
}

// Guest takes as long as the model says.
func (m modelled) Guest(ctx context.Context, vmi *api.Instance) error {
	return clock.Sleep(ctx, m.drawDuration(vmi, "guest", m.model.Guest))
}

// Stop takes as long as the model says.
func (m modelled) Stop(ctx context.Context, vmi *api.Instance) error {
	return clock.Sleep(ctx, m.drawDuration(vmi, "stop", m.model.Stop))
}

var errUnmount = errors.New("unmount failed: the target is busy")
