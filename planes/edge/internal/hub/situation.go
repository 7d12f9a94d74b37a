package hub

// situation is what a hub knows of an object when a change of it comes for an edge. What
// follows is decided here, without a watch, a store or a session.
type situation struct {
	deletion  bool
	version   uint64    // of the object, after the change
	connected bool      // the edge is connected to this hub
	waiting   *outgoing // the newest state on its way to the edge; nil: none is
	stored    bool      // the store knows the object at the edge
	acked     uint64    // the version that the edge has acknowledged; 0: none yet
}

// route is where a change goes.
type route string

// Where changes go.
const (
	toNobody  route = "nobody"
	toSession route = "session" // of the edge
	toForeign route = "foreign" // into a queue for an edge of another hub, which would be made anew when the edge comes
	toLeft    route = "left"    // to what an edge has left when its connection ended; if it never had one, as toForeign
)

// routeTo decides where a change goes.
func (s situation) routeTo(o *Options) route {
	switch {
	case !s.connected && o.Owner == OwnerOwn:
		return toNobody // the edge's own hub sends it, or whichever the edge comes back to
	case !s.deletion && !s.isNewer():
		return toNobody
	case s.connected:
		return toSession
	case o.Queues == QueuesHead:
		return toForeign
	}
	return toLeft
}

// isNewer says whether the object is newer than what is on its way to the edge, or than
// what the edge has.
func (s situation) isNewer() bool {
	if s.waiting != nil {
		return !s.waiting.deletion && s.version > s.waiting.version
	}
	return !s.stored || s.version > s.acked
}

// needsBirth says whether it has to be written down first that the object is sent.
func (s situation) needsBirth(o *Options) bool {
	isNew := !s.deletion && s.waiting == nil && !s.stored
	return isNew && o.Birth == BirthDispatch && s.routeTo(o) != toNobody
}
