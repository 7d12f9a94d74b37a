// Package record holds the facts of a run: the four record types, the stream
// that they are written to as they happen, the run directory and its manifest.
//
// It holds no opinions: verdicts, statistics and reports are computed from
// records by packages of higher levels and can be computed again by a later version.
// What flies writes records, what has an opinion reads them.
package record

import (
	"math"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Outcome says how a call ended. A timeout is Unknown: the server may or may
// not have done what was asked.
type Outcome uint8

// The outcomes of a call.
const (
	OK      Outcome = iota // answered with a status below 400
	Failed                 // answered with a status of 400 and above, or never sent
	Unknown                // sent, but no answer was seen
)

// String returns ok, failed or unknown.
func (o Outcome) String() string { return [...]string{"ok", "failed", "unknown"}[o%3] }

// Op is what a call asks for. Ops are few: they are written once, and calls
// refer to them.
type Op struct {
	Source      string // who sent it: load, fleet or observe
	Step        string // the scenario's step, empty outside one
	Verb        string // API verb: create, get, list, update, patch, delete, deletecollection, watch
	Resource    string // plural and group as in "deployments.apps"; "pods" for the core group
	Subresource string // status, binding, scale ...; empty for the object itself
	Scope       string // resource (one object), namespace or cluster (lists)
	Cluster     string // the member that it is sent to; empty: the plane
	Connection  string // NewConnection: each call opens a connection of its own; empty: they use those that are open
	Clients     string // the population of clients that sends it; empty: windtunnel's own client
}

// NewConnection is the Op.Connection of calls that open a connection each.
const NewConnection = "new"

// Call is one API request.
type Call struct {
	Op            OpID
	Due           clock.Time // when the pace wanted it sent
	Sent          clock.Time // when its first byte was handed to the connection; with Op.Connection new: when that connection was begun
	Done          clock.Time // when its answer was complete, or given up
	Code          uint16     // HTTP status; 0 when there was no answer
	Outcome       Outcome
	RetryAfter    time.Duration // what the server asked for, whole seconds; 0 when it did not
	SentBytes     uint32        // body sent
	ReceivedBytes uint32        // body received
	Attempt       uint8         // 0: the first; n: sent again for the n-th time
	Again         bool          // it did not end well, and is sent again: the next attempt follows
	Reached       bool          // its refusal says that an attempt before it, whose end nobody saw, had been done
	Number        uint32        // which call of its step it is for, from 1; 0: it is not told. Those of workers are: each sends some of them
	More          bool          // with Number: another call of that number follows, which is no retry
	Throttled     time.Duration // how long the rate limiter of its client held it back, as a client's own does
}

// Latency is Done-Due: what a user who wanted the call at Due waited (rule 1).
func (c Call) Latency() time.Duration { return c.Done.Sub(c.Due) }

// Service is Done-Sent: what the server and the network took.
func (c Call) Service() time.Duration { return c.Done.Sub(c.Sent) }

// ForGood tells whether a call failed for good: it was refused, never sent or not
// answered, and not sent again.
func (c Call) ForGood() bool { return c.Outcome != OK && !c.Again && !c.Reached }

// Lateness is Sent-Due without the wait for its client's rate limiter: what the instrument
// itself added.
func (c Call) Lateness() time.Duration { return c.Sent.Sub(c.Due) - c.Throttled }

// Object is something whose life is observed.
type Object struct {
	Resource  string // as in Op.Resource
	Namespace string
	Name      string
	UID       string
	Group     string // what the scenario calls the objects that it belongs to; may be empty
	Lifecycle string // which of the scenario's lifecycles this is; empty for the pods that every run observes
	Cluster   string // the member that it is in; empty: the plane
}

// Phase says that an object was seen to have reached a phase. An object's
// phases together are its lifecycle.
type Phase struct {
	Object ObjectID
	Phase  string // created, bound, running, ready, deleting, deleted ...; of declared lifecycles the scenario's own names
	At     clock.Time
	// Within is how long before At the phase may have been reached, where the
	// watch was interrupted or lagged: 0 nearly always, Ever where nothing bounds it.
	Within time.Duration
}

// LeftOut says that a call of a step was not sent, because there was nothing to be
// sent: what it was about is not there. Only the records of workers have it.
type LeftOut struct {
	Op     OpID
	Number uint32 // as in Call
}

// Ever is the Within of a phase that may have been reached at any time before.
const Ever = time.Duration(math.MaxInt64)

// Label is one name and value of a series.
type Label struct{ Name, Value string }

// Series names a stream of samples.
type Series struct {
	Target string  // where it was read: kube-apiserver, etcd ..., windtunnel
	Name   string  // metric name
	Labels []Label // sorted by name
}

// Sample is one value of a series. A counter or gauge that did not change
// since the series' last sample is not written again: the event "scrape" of its
// target says when it was looked at.
type Sample struct {
	Series SeriesID
	At     clock.Time
	Value  float64
}

// OpID, ObjectID and SeriesID number what was defined in the stream before,
// from 0 in the order of definition.
type (
	OpID     uint32
	ObjectID uint64
	SeriesID uint32
)

// The phases of a pod's life, each stamped by the receipt of the watch event
// that first showed it.
const (
	PhaseCreated  = "created"  // the object was added
	PhaseBound    = "bound"    // spec.nodeName is set
	PhaseRunning  = "running"  // status.phase is Running
	PhaseReady    = "ready"    // the condition Ready is True
	PhaseFinished = "finished" // status.phase is Succeeded or Failed
	PhaseDeleting = "deleting" // metadata.deletionTimestamp is set
	PhaseDeleted  = "deleted"  // the object was removed
	// PhaseUnknown says that something happened to the object while its watch
	// was interrupted, at most Within before: phases that were reached meanwhile have
	// a Within too. An object that was not seen being created was created then.
	// Without a Within (streams of older versions) no phase from here on has a
	// true time.
	PhaseUnknown = "unknown"
)
