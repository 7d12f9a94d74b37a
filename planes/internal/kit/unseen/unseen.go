// Package unseen remembers what a controller wrote and its watches have not shown yet. A
// pass over what the caches held before would do again what was done, or be refused.
//
// The controller's event handlers say what the watches show, after they have brought the
// object's key into the queue: what counts as seen has been acted upon. It is a memory,
// not a guarantee: after a restart it is empty, and what a watch has lost, as after a
// server went back to an earlier state, is given up after Timeout.
package unseen

import (
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Timeout is how long a watch may be behind a write until the caches are believed again.
const Timeout = 10 * time.Second

// Writes are the writes about many owners. An owner is what one pass works on, and has a
// key; what is written about it are objects of several kinds.
type Writes struct {
	clock clock.Clock
	wake  func(owner string)

	mu      sync.Mutex
	byOwner map[string]*writes
}

// writes are those about one owner.
type writes struct {
	passes   int              // that run
	waits    *time.Timer      // of a pass that was held back; nil: none was
	expected map[object]state // what a watch will show, or something later
	shown    map[object]state // what was shown while a pass runs: a watch may be quicker than an answer
}

type object struct{ kind, namespace, name string }

// state is what a write made of an object, or what a watch showed of it.
type state struct {
	uid     types.UID
	version uint64
	leaves  bool // it is being deleted
	gone    bool
	since   clock.Time // of a write
}

// New returns a memory of no writes. wake gets the owner of a pass that was held back,
// when nothing holds it back any more.
func New(c clock.Clock, wake func(owner string)) *Writes {
	return &Writes{clock: c, wake: wake, byOwner: map[string]*writes{}}
}

// Begin says whether the watches have shown what was written about an owner. If so a pass
// over it begins, which ends with End; if not, wake is called when they have.
func (w *Writes) Begin(owner string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.ofLocked(owner)
	now := w.clock.Now()
	for object, s := range o.expected {
		if now.Sub(s.since) >= Timeout {
			delete(o.expected, object)
		}
	}
	if len(o.expected) == 0 {
		o.passes++
		o.stopWaiting()
		return true
	}
	if o.waits == nil {
		o.waits = time.AfterFunc(Timeout, func() { w.giveUp(owner) })
	}
	return false
}

// Open says that something about an owner is about to be written by who does not wait. It
// ends with End.
func (w *Writes) Open(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ofLocked(owner).passes++
}

// giveUp lets a pass that was held back go on.
func (w *Writes) giveUp(owner string) {
	w.mu.Lock()
	if o := w.byOwner[owner]; o != nil {
		o.waits = nil
	}
	w.mu.Unlock()
	w.wake(owner)
}

// stopWaiting says whether a pass was held back, which is not any more.
func (o *writes) stopWaiting() bool {
	if o.waits == nil {
		return false
	}
	o.waits.Stop()
	o.waits = nil
	return true
}

// End says that a pass over an owner, or what was opened, has ended.
func (w *Writes) End(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	o := w.ofLocked(owner)
	if o.passes--; o.passes <= 0 {
		o.passes, o.shown = 0, nil
	}
	w.dropLocked(owner, o)
}

// Wrote says that a write about an owner made an object what it is: a watch will show this
// version of it, or a newer one. was is the version that was written over, empty for an
// object that is new: of a write that changed nothing a watch shows nothing.
func (w *Writes) Wrote(owner, kind, was string, o metav1.Object) {
	if was == o.GetResourceVersion() {
		return
	}
	w.expect(owner, kind, o, state{uid: o.GetUID(), version: version(o)})
}

// Deleted says that the deletion of an object was asked for: a watch will show it as being
// deleted, or not at all.
func (w *Writes) Deleted(owner, kind string, o metav1.Object) {
	w.expect(owner, kind, o, state{uid: o.GetUID(), version: version(o), leaves: true})
}

// Released says that the last finalizer was taken off a deleted object: no watch will show
// it any more.
func (w *Writes) Released(owner, kind string, o metav1.Object) {
	w.expect(owner, kind, o, state{uid: o.GetUID(), version: version(o), leaves: true, gone: true})
}

func (w *Writes) expect(owner, kind string, o metav1.Object, s state) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of, id := w.ofLocked(owner), idOf(kind, o)
	if last, ok := of.shown[id]; ok && s.isMet(last) {
		return
	}
	s.since = w.clock.Now()
	of.expected[id] = s
}

// Shown says that a watch showed an object of an owner.
func (w *Writes) Shown(owner, kind string, o metav1.Object) {
	w.show(owner, idOf(kind, o), state{uid: o.GetUID(), version: version(o), leaves: o.GetDeletionTimestamp() != nil})
}

// Gone says that a watch showed that an object of an owner is gone.
func (w *Writes) Gone(owner, kind string, o metav1.Object) {
	w.show(owner, idOf(kind, o), state{uid: o.GetUID(), version: version(o), leaves: true, gone: true})
}

func (w *Writes) show(owner string, id object, now state) {
	w.mu.Lock()
	o := w.byOwner[owner]
	if o == nil { // nothing was written, and no pass runs
		w.mu.Unlock()
		return
	}
	if o.passes > 0 {
		if o.shown == nil {
			o.shown = map[object]state{}
		}
		o.shown[id] = now
	}
	if s, ok := o.expected[id]; ok && s.isMet(now) {
		delete(o.expected, id)
	}
	wakes := len(o.expected) == 0 && o.stopWaiting()
	w.dropLocked(owner, o)
	w.mu.Unlock()
	if wakes {
		w.wake(owner)
	}
}

// isMet says whether what a watch showed is what a write made, or comes after it.
func (s state) isMet(now state) bool {
	switch {
	case now.uid != s.uid:
		return now.version > s.version // another one of its name
	case now.gone:
		return true
	}
	return !s.gone && now.version >= s.version && (now.leaves || !s.leaves)
}

// Forget drops what was written about an owner: it is gone.
func (w *Writes) Forget(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if o := w.byOwner[owner]; o != nil {
		o.stopWaiting()
		delete(w.byOwner, owner)
	}
}

// Owners returns of how many owners something was written that no watch has shown yet, or
// over which a pass runs.
func (w *Writes) Owners() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.byOwner)
}

func (w *Writes) ofLocked(owner string) *writes {
	o := w.byOwner[owner]
	if o == nil {
		o = &writes{expected: map[object]state{}}
		w.byOwner[owner] = o
	}
	return o
}

// dropLocked forgets an owner that rests: there are many, and most do.
func (w *Writes) dropLocked(owner string, o *writes) {
	if o.passes == 0 && len(o.expected) == 0 && o.waits == nil {
		delete(w.byOwner, owner)
	}
}

func idOf(kind string, o metav1.Object) object { return object{kind, o.GetNamespace(), o.GetName()} }

// version reads a resourceVersion, which servers count up; 0 where there is none.
func version(o metav1.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
