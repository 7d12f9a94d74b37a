package controller

import (
	"slices"

	"github.com/windtunnel/windtunnel/planes/app/internal/api"
)

// collection is what a pass knows of the trackers of an application, and of the objects
// that they hold. What garbage collection does is decided here, without a server: a stage
// yields its actions one at a time, and whoever carries out a read notes what it found
// before the next action is asked for.
type collection struct {
	inactive []*api.Tracker   // that nothing needs any more, and that are not deleted yet
	deleted  []deletedTracker // oldest generation first
	owned    map[string]bool  // by key of an object that was read: it exists and is the application's; absent: not read yet
	finished bool             // no deleted tracker holds anything; sweep says so
}

// deletedTracker is a tracker with a deletion timestamp, and the objects that no later
// tracker holds: it alone may delete them.
type deletedTracker struct {
	*api.Tracker
	alone []api.ManagedResource
}

// collectAction is one request of a garbage collection.
type collectAction struct {
	verb    collectVerb
	tracker *api.Tracker        // of deleteTracker and releaseTracker
	object  api.ManagedResource // of readHeld and deleteHeld
}

type collectVerb string

const (
	deleteTracker  collectVerb = "delete tracker"
	releaseTracker collectVerb = "release tracker" // removes the finalizer of a deleted tracker
	readHeld       collectVerb = "read"
	deleteHeld     collectVerb = "delete"
)

// newCollection returns what is known before the first request of all trackers, oldest
// generation first. The current one, nil if there is none, is inactive only if the
// application is being deleted.
func newCollection(all []*api.Tracker, current *api.Tracker, deleted bool) *collection {
	c, latest := &collection{owned: map[string]bool{}}, map[string]*api.Tracker{}
	for _, t := range all {
		for _, m := range t.Spec.ManagedResources {
			latest[m.Key()] = t
		}
	}
	for _, t := range all {
		if t.DeletionTimestamp != nil {
			c.deleted = append(c.deleted, deletedTracker{t, slices.DeleteFunc(slices.Clone(t.Spec.ManagedResources), func(m api.ManagedResource) bool { return latest[m.Key()] != t })})
		} else if deleted || t != current {
			c.inactive = append(c.inactive, t)
		}
	}
	return c
}

// mark deletes inactive trackers.
func (c *collection) mark(yield func(collectAction) bool) {
	for _, t := range c.inactive {
		if !yield(collectAction{verb: deleteTracker, tracker: t}) {
			return
		}
	}
}

// sweep releases deleted trackers that alone hold nothing any more. What was marked in this
// pass is not among them: the event of its tracker starts the pass that sweeps it.
func (c *collection) sweep(yield func(collectAction) bool) {
	c.finished = true
	for _, t := range c.deleted {
		holds := false
		for i := 0; i < len(t.alone) && !holds; i++ {
			if !c.readUnknown(t.alone[i], yield) {
				return
			}
			holds = c.owned[t.alone[i].Key()]
		}
		if holds {
			c.finished = false
		} else if !yield(collectAction{verb: releaseTracker, tracker: t.Tracker}) {
			return
		}
	}
}

// finalize deletes what only deleted trackers hold.
func (c *collection) finalize(yield func(collectAction) bool) {
	for _, t := range c.deleted {
		for _, m := range t.alone {
			if !c.readUnknown(m, yield) || c.owned[m.Key()] && !yield(collectAction{verb: deleteHeld, object: m}) {
				return
			}
		}
	}
}

// readUnknown reads an object that was not read yet; false: no further action is wanted.
func (c *collection) readUnknown(m api.ManagedResource, yield func(collectAction) bool) bool {
	_, known := c.owned[m.Key()]
	return known || yield(collectAction{verb: readHeld, object: m})
}
