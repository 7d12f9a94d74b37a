package engine

import "github.com/windtunnel/windtunnel/internal/clock"

// Object is what the engine knows of one simulated object: at most one call is under
// way for it, and at most one waits. The zero value has none.
type Object[J any] struct {
	call *Call[J] // waits, or is sent
	next *Call[J] // chosen while call was sent
	made uint64   // version that its last call made
}

// Stale says that a version of the object is older than what its last call made: the
// event was overtaken by that call, whose own event follows.
func (o *Object[J]) Stale(version uint64) bool { return version < o.made }

// Idle says that no call waits or is sent.
func (o *Object[J]) Idle() bool { return o.call == nil }

// Pending returns the job that waits, which a new choice replaces or changes; nil when
// none does.
func (o *Object[J]) Pending() *J {
	c := o.call
	if c != nil && c.sent {
		c = o.next
	}
	if c == nil {
		return nil
	}
	return c.job
}

// Choose makes c, new or Pending, the call that waits for an object. While another one
// is sent it goes after that; a call that is held stays where it is.
func (e *Engine[J]) Choose(o *Object[J], c *Call[J], now clock.Time) {
	switch {
	case o.call == nil:
		o.call = c
	case o.call.sent:
		o.next = c
		return
	}
	if c.in == nil || c.in == &e.Classes[c.Class].queue {
		e.Schedule(c, now)
	}
}

// Withdraw frees the call that waits for an object.
func (e *Engine[J]) Withdraw(o *Object[J]) {
	e.DropNext(o)
	if c := o.call; c != nil && !c.sent {
		o.call = nil
		e.Free(c)
	}
}

// DropNext frees the call that was chosen while the one before it was sent.
func (e *Engine[J]) DropNext(o *Object[J]) {
	if c := o.next; c != nil {
		o.next = nil
		e.Free(c)
	}
}

// Forget ends all calls for an object that does not exist any more.
func (e *Engine[J]) Forget(o *Object[J]) {
	e.DropNext(o)
	if c := o.call; c != nil {
		o.call = nil
		e.Cancel(c)
	}
}

// Finish frees the object's answered call, which made a version of the object; 0: none.
// What was chosen meanwhile goes next, unless it was chosen for an older version.
func (e *Engine[J]) Finish(o *Object[J], made uint64, now clock.Time) {
	o.made = max(o.made, made)
	e.Free(o.call)
	o.call, o.next = o.next, nil
	switch c := o.call; {
	case c == nil:
	case o.Stale(c.Version):
		o.call = nil
		e.Free(c)
	default:
		e.Schedule(c, now)
	}
}

// Replace puts what was chosen meanwhile in the place of the object's answered call,
// whose tries it takes over. It returns the job that goes next, for Retry or Schedule.
func (e *Engine[J]) Replace(o *Object[J]) *J {
	if next := o.next; next != nil {
		next.Attempt = o.call.Attempt
		e.Free(o.call)
		o.call, o.next = next, nil
	}
	return o.call.job
}
