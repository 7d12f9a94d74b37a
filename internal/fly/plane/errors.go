package plane

import "errors"

// Errors of starting or attaching; those of package release come as well.
var (
	// ErrUnauthorised says that an identity lacks a right that a run needs.
	ErrUnauthorised = errors.New("not authorised")
	// ErrUnreachable says that no API server answers at an address.
	ErrUnreachable = errors.New("cannot reach the API server")
	// ErrNoSpace says that no folder has room for etcd's data.
	ErrNoSpace = errors.New("no room for etcd's data")
	// ErrPortTaken says that somebody else listens on a port that the scenario asks for.
	ErrPortTaken = errors.New("port already taken")
	// ErrNotOurs says that a component was not started by windtunnel.
	ErrNotOurs = errors.New("not started by windtunnel")
	// ErrNoFault says that a plane, a member or a fleet cannot be disturbed in a way.
	ErrNoFault = errors.New("it cannot be disturbed like that")
	// ErrNotRunning says that a component has ended already, as after an earlier fault that
	// still holds: another would be none, and end the first one too early.
	ErrNotRunning = errors.New("it does not run: an earlier fault has ended it, or it has exited")
	// ErrEnded says that a component ended, as somebody had asked for, before
	// it was ready.
	ErrEnded = errors.New("was ended before it was ready")
	// ErrClosed says that the plane was closed.
	ErrClosed = errors.New("plane closed")
)
