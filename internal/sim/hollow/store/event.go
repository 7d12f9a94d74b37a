package store

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Event is a change of an object. It is never changed.
type Event struct {
	Version uint64
	Object  *Object // what is there now; the last state of one that was deleted
	Before  *Object // nil of one that was added
	Deleted bool

	time   clock.Time
	forms  atomic.Pointer[forms]
	remade atomic.Pointer[remade] // where forms are kept that are made again; nil: they are kept in any case
}

// historySize returns how many bytes only the history keeps because of the event: what the
// object was before. The object itself is either still there or counts with the event
// that replaced it.
func (e *Event) historySize() (n int) {
	if e.Before != nil {
		n = len(e.Before.Raw)
	}
	if e.Deleted {
		n += len(e.Object.Raw)
	}
	return n
}

// forms are an event's encodings and what selectors ask of it, each made once.
type forms struct {
	mu    sync.Mutex
	named []named
}

// remade are events of the past whose forms were made again for watches that are far
// behind: the last ones, of formBytesKept bytes in all.
type remade struct {
	mu     sync.Mutex
	events []*Event
	bytes  int
}

func (r *remade) addEvent(e *Event) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	r.bytes += len(e.Object.Raw)
	for len(r.events) > 1 && (r.bytes > formBytesKept || len(r.events) > formsKept) {
		first := r.events[0]
		first.forms.Store(nil)
		r.bytes -= len(first.Object.Raw)
		r.events[0], r.events = nil, r.events[1:]
	}
}

type named struct {
	name  any
	value any
}

// Once returns what make made of the event under a name, the first time that it
// is asked for. It is made again when many events came after.
func Once[T any](e *Event, name any, make func() T) T {
	f := e.forms.Load()
	if f == nil {
		f = &forms{}
		if e.forms.CompareAndSwap(nil, f) {
			e.remade.Load().addEvent(e)
		} else {
			if f = e.forms.Load(); f == nil { // dropped between the two
				f = &forms{}
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, n := range f.named {
		if n.name == name {
			return n.value.(T)
		}
	}
	out := make()
	f.named = append(f.named, named{name, out})
	return out
}

// newsMost is how many events News has: whoever is far behind holds on to no more of
// them, and a thousand watches to no more than a thousand times that.
const newsMost = 64

// News is what happened in a table since a version.
type News struct {
	Events  []*Event        // at most newsMost
	Version uint64          // up to which nothing else has happened: the store's, or that of the last event
	Changed <-chan struct{} // closed when more happens; nil: more has happened already
}

// Since returns the first events after a version. ErrCompacted says that not all of
// them are known any more.
func (t *Table) Since(version uint64) (News, error) {
	t.store.mu.RLock()
	if t.changed != nil { // all watches but the first come here
		defer t.store.mu.RUnlock()
		return t.sinceLocked(version)
	}
	t.store.mu.RUnlock()
	t.store.mu.Lock()
	defer t.store.mu.Unlock()
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	return t.sinceLocked(version)
}

func (t *Table) sinceLocked(version uint64) (News, error) {
	if version < t.oldest {
		return News{}, ErrCompacted
	}
	behind := t.log[t.afterLocked(version):]
	if len(behind) <= newsMost {
		return News{slices.Clone(behind), t.store.version, t.changed}, nil
	}
	behind = behind[:newsMost]
	return News{slices.Clone(behind), behind[newsMost-1].Version, nil}, nil
}

// afterLocked returns the place in the log of the first event after a version.
func (t *Table) afterLocked(version uint64) int {
	return sort.Search(len(t.log), func(i int) bool { return t.log[i].Version > version })
}

// Query says what to list.
type Query struct {
	Prefix string // of keys: NAMESPACE/
	After  string // only what comes after this key
	At     uint64 // the version to look at; 0: now
	Limit  int    // at most so many; 0: all
}

// Listed is a list.
type Listed struct {
	Objects []*Object
	Version uint64 // the version that was looked at
	More    int    // how many the limit left out
}

// List returns objects in the order of their keys. ErrCompacted and ErrFuture
// say that the version cannot be looked at.
func (t *Table) List(q Query) (Listed, error) {
	t.store.mu.RLock()
	defer t.store.mu.RUnlock()
	switch {
	case q.At > t.store.version:
		return Listed{}, ErrFuture
	case q.At != 0 && q.At < t.oldest:
		return Listed{}, ErrCompacted
	case q.At == 0:
		q.At = t.store.version
	}
	objects := t.pastLocked(q)
	out := Listed{Objects: objects, Version: q.At}
	if q.Limit > 0 && len(objects) > q.Limit {
		out.Objects, out.More = objects[:q.Limit], len(objects)-q.Limit
	}
	return out, nil
}

// pastLocked returns what there was at a version: what there is, with the events
// since then undone.
func (t *Table) pastLocked(q Query) (out []*Object) {
	undone := map[string]*Object{}
	for _, e := range slices.Backward(t.log[t.afterLocked(q.At):]) {
		undone[e.Object.Key] = e.Before
	}
	if t.tree != nil {
		if q.Prefix == "" && q.After == "" {
			out = make([]*Object, 0, t.tree.Len())
		}
		t.tree.AscendGreaterOrEqual(&Object{Key: max(q.Prefix, q.After)}, func(o *Object) bool {
			if !strings.HasPrefix(o.Key, q.Prefix) {
				return false
			}
			if _, changed := undone[o.Key]; o.Key != q.After && !changed {
				out = append(out, o)
			}
			return true
		})
	}
	n := len(out)
	for key, o := range undone {
		if o != nil && strings.HasPrefix(key, q.Prefix) && key > q.After {
			out = append(out, o)
		}
	}
	if len(out) > n {
		slices.SortFunc(out, func(a, b *Object) int { return strings.Compare(a.Key, b.Key) })
	}
	return out
}
