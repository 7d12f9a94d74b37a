// Package condition follows the objects of a resource and counts those of which
// a condition holds, for the steps that wait.
//
// It evaluates the condition when an event comes and keeps a name and a yes or
// no of each object, nothing of the object itself. It records nothing. Package
// steps runs one for as long as a step waits.
package condition

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
)

// Holder tells whether an object, in JSON, is as it should be;
// *scenario.Condition is one.
type Holder interface {
	Holds(object []byte) (bool, error)
}

// Options say what to follow and what for.
type Options struct {
	Path      string                            // of the collection
	Selector  string                            // more of the query: labelSelector=..., escaped
	Condition Holder                            // nil: that an object exists is all that matters
	Mine      func(namespace, name string) bool // which objects count; nil: all
}

// Counts are of the objects that exist now.
type Counts struct {
	Existing int
	Holding  int   // of these, those of which the condition holds
	Faulty   int   // of these, those of which it could not be evaluated
	Err      error // why, of the first of them
}

// Observer counts.
type Observer struct {
	options Options
	synced  chan struct{}
	changed chan struct{}

	mu      sync.Mutex
	objects map[key]state
	counts  Counts
	seen    bool // some object was there
	listed  watch.Relist[key]
}

type key struct{ namespace, name string }

// state is what is known of an object.
type state uint8

const (
	waiting state = iota
	holding
	faulty
)

// New returns an observer.
func New(o Options) *Observer {
	return &Observer{options: o, synced: make(chan struct{}), changed: make(chan struct{}, 1), objects: map[key]state{}}
}

// Run follows the objects until ctx ends. It returns nil then, and an error
// when the server refuses the watch for good.
func (o *Observer) Run(ctx context.Context, client *wire.Client, c clock.Clock) error {
	err := watch.Follow(ctx, client, watch.Options{Path: o.options.Path, Selector: o.options.Selector, Clock: c, JSON: true}, handler{o})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("observe %s: %w", o.options.Path, err)
}

// Synced is closed when the first list was read: the counts mean something from
// then on.
func (o *Observer) Synced() <-chan struct{} { return o.synced }

// Changed receives after the counts have changed.
func (o *Observer) Changed() <-chan struct{} { return o.changed }

// Counts returns the counts as they are now.
func (o *Observer) Counts() Counts {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts
}

// Seen tells whether any object has been there since the watch began.
func (o *Observer) Seen() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen
}

// Behind names the first objects, by namespace and name, of which the condition
// does not hold: at most so many.
func (o *Observer) Behind(most int) [][2]string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out [][2]string
	for k, s := range o.objects {
		if s == holding {
			continue
		}
		at, _ := slices.BinarySearchFunc(out, [2]string{k.namespace, k.name}, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
		if out = slices.Insert(out, at, [2]string{k.namespace, k.name}); len(out) > most {
			out = out[:most]
		}
	}
	return out
}

// handler is the observer's side that the watch calls, all from one goroutine.
type handler struct{ o *Observer }

func (h handler) ListBegin(bool, string) {
	h.o.mu.Lock()
	defer h.o.mu.Unlock()
	h.o.listed.Begin()
}

func (h handler) ListEnd() {
	o := h.o
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, k := range o.listed.End(maps.Keys(o.objects)) {
		o.dropLocked(k)
	}
	select {
	case <-o.synced:
	default:
		close(o.synced)
	}
	o.notifyChange()
}

// Event takes one object as it is now.
func (h handler) Event(e watch.Event) {
	o := h.o
	about, err := object.ReadMetadata(e.Object)
	if err != nil || about.Name == "" {
		return // a later event or list shows it again
	}
	k := key{about.Namespace, about.Name}
	if o.options.Mine != nil && !o.options.Mine(k.namespace, k.name) {
		return
	}
	if e.Kind == watch.Deleted {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen = true
		o.dropLocked(k)
		o.notifyChange()
		return
	}
	now, err := o.evaluateObject(e.Object)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listed.Add(k)
	o.dropLocked(k)
	o.objects[k] = now
	o.seen = true
	o.counts.Existing++
	switch now {
	case holding:
		o.counts.Holding++
	case faulty:
		if o.counts.Faulty++; o.counts.Err == nil {
			o.counts.Err = fmt.Errorf("%s %s: %w", k.namespace, k.name, err)
		}
	}
	o.notifyChange()
}

func (o *Observer) evaluateObject(object []byte) (state, error) {
	if o.options.Condition == nil {
		return waiting, nil
	}
	holds, err := o.options.Condition.Holds(object)
	switch {
	case err != nil:
		return faulty, err
	case holds:
		return holding, nil
	}
	return waiting, nil
}

// dropLocked forgets an object; callers hold mu.
func (o *Observer) dropLocked(k key) {
	before, ok := o.objects[k]
	if !ok {
		return
	}
	delete(o.objects, k)
	o.counts.Existing--
	switch before {
	case holding:
		o.counts.Holding--
	case faulty:
		if o.counts.Faulty--; o.counts.Faulty == 0 {
			o.counts.Err = nil
		}
	}
}

// notifyChange wakes whoever waits for a change.
func (o *Observer) notifyChange() {
	select {
	case o.changed <- struct{}{}:
	default:
	}
}
