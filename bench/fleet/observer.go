package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// life is when a pod was seen in each phase, by receipt; 0 for not yet.
type life struct{ created, bound, running, gone clock.Time }

// lease is a node's lease as it was seen last.
type lease struct{ renewed time.Time }

// observer sees what a side does by watches of its own, the same for both sides.
type observer struct {
	clock clock.Clock

	mu          sync.Mutex
	changes     int // events that brought something new
	gaps        int // watches that had to begin anew: receipts around them are late
	ready       map[string]bool
	schedulable map[string]bool
	lastReady   clock.Time
	leases      map[string]lease
	intervals   []time.Duration // between renewals, by the leases' renewTime; kept while watching
	watching    bool
	pods        map[string]*life // those that were expected
	ran, gone   int              // of them
	nodeView    object.Node
}

func newObserver(c clock.Clock) *observer {
	return &observer{clock: c, ready: map[string]bool{}, schedulable: map[string]bool{}, leases: map[string]lease{}, pods: map[string]*life{}}
}

// handler is one watch of an observer.
type handler struct {
	o   *observer
	see func(watch.Event) error
	err *error
}

func (h handler) Event(e watch.Event) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	if err := h.see(e); err != nil && *h.err == nil {
		*h.err = err
	}
}

func (h handler) ListBegin(again bool, _ string) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	if again {
		h.o.gaps++
	}
}

func (handler) ListEnd() {}

// followObjects watches nodes, leases and pods until ctx ends, which is no error.
func (o *observer) followObjects(ctx context.Context, c *wire.Client) error {
	var all sync.WaitGroup
	faults := make([]error, 6)
	for i, w := range []struct {
		path string
		see  func(watch.Event) error
	}{
		{"/api/v1/nodes", o.takeNode},
		{"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", o.takeLease},
		{"/api/v1/namespaces/" + namespace + "/pods", o.takePod},
	} {
		all.Go(func() {
			err := watch.Follow(ctx, c, watch.Options{Path: w.path, Clock: o.clock}, handler{o, w.see, &faults[i]})
			if ctx.Err() == nil {
				faults[3+i] = err
			}
		})
	}
	all.Wait()
	return errors.Join(faults...)
}

func (o *observer) takeNode(e watch.Event) error {
	n := &o.nodeView
	if err := object.DecodeNode(e.Object, n); err != nil {
		return fmt.Errorf("decode node: %w", err)
	}
	name := string(n.Name)
	if string(n.Ready) == "True" && !o.ready[name] {
		o.ready[name] = true
		o.lastReady = e.At
		o.changes++
	}
	if o.ready[name] && len(n.Taints) == 0 && !n.Unschedulable && !o.schedulable[name] {
		o.schedulable[name] = true
		o.changes++
	}
	return nil
}

func (o *observer) takeLease(e watch.Event) error {
	var l coordinationv1.Lease
	if err := l.Unmarshal(e.Object); err != nil {
		return fmt.Errorf("decode lease: %w", err)
	}
	if l.Spec.RenewTime == nil {
		return nil
	}
	last, known := o.leases[l.Name]
	now := l.Spec.RenewTime.Time
	if known && !now.After(last.renewed) {
		return nil
	}
	o.changes++
	o.leases[l.Name] = lease{now}
	if known && o.watching {
		o.intervals = append(o.intervals, now.Sub(last.renewed))
	}
	return nil
}

func (o *observer) takePod(e watch.Event) error {
	var p object.Pod
	if err := object.DecodePod(e.Object, &p); err != nil {
		return fmt.Errorf("decode pod: %w", err)
	}
	l := o.pods[string(p.Name)]
	if l == nil {
		return nil
	}
	stamp := func(at *clock.Time, ok bool, count *int) {
		if ok && *at == 0 {
			*at = e.At
			*count++
		}
	}
	stamp(&l.created, true, &o.changes)
	stamp(&l.bound, len(p.NodeName) > 0, &o.changes)
	stamp(&l.running, string(p.Phase) == "Running" && string(p.Ready) == "True", &o.ran)
	stamp(&l.gone, e.Kind == watch.Deleted, &o.gone)
	return nil
}

// expectPods forgets all pods and watches for those named.
func (o *observer) expectPods(names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.pods)
	o.ran, o.gone = 0, 0
	for _, name := range names {
		o.pods[name] = &life{}
	}
}

// counts are how many nodes and pods have come how far.
type counts struct{ ready, schedulable, leases, running, gone int }

// readCounts returns them, and a number that grows with every change.
func (o *observer) readCounts() (c counts, changes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return counts{len(o.ready), len(o.schedulable), len(o.leases), o.ran, o.gone}, o.changes + o.ran + o.gone
}

// awaitCounts waits until done says so. It gives up when nothing has changed for the
// patience, and returns what it saw last; that is no error: what is missing is
// counted by the caller.
func (o *observer) awaitCounts(ctx context.Context, patience time.Duration, done func(counts) bool) (counts, error) {
	changed, since := -1, o.clock.Now()
	for {
		c, changes := o.readCounts()
		now := o.clock.Now()
		if changes != changed {
			changed, since = changes, now
		}
		if done(c) || now.Sub(since) > patience {
			return c, nil
		}
		if err := clock.Sleep(ctx, 20*time.Millisecond); err != nil {
			return c, err
		}
	}
}

// readMarks returns when the last node became Ready, and how often a watch had to
// begin anew.
func (o *observer) readMarks() (lastReady clock.Time, gaps int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lastReady, o.gaps
}

// podLives returns the lives of the expected pods.
func (o *observer) podLives() []life {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]life, 0, len(o.pods))
	for _, name := range slices.Sorted(maps.Keys(o.pods)) {
		out = append(out, *o.pods[name])
	}
	return out
}

// recordRenewals begins or ends the watch over renewals. At its end it returns the
// intervals between two renewals of a lease, and the ages of the leases then: an
// interval that has not ended is at least as long as that.
func (o *observer) recordRenewals(on bool) (intervals, ages []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watching = on; on {
		o.intervals = nil
		return nil, nil
	}
	now := o.clock.Wall(o.clock.Now())
	for _, l := range o.leases {
		ages = append(ages, now.Sub(l.renewed))
	}
	return o.intervals, ages
}
