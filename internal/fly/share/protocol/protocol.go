// Package protocol has one process lead others that share a run's load: a common
// start, clocks that are held against each other, and the records of all brought
// together. The leader serves HTTPS with a certificate authority and a token of its
// own, and workers ask it: nothing reaches into them.
//
// It knows nothing of scenarios. What is to be done is bytes to it, which package
// flight writes on one side and reads on the other.
package protocol

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Errors of leaders and workers.
var (
	ErrRefused    = errors.New("the leader refused the worker")
	ErrLeaderGone = errors.New("the leader cannot be reached any more")
	ErrLost       = errors.New("lost")
	ErrUnequal    = errors.New("worker refused")
)

// Bounds in time. Each is a default that Options can change, but for those that both
// sides have to agree on.
const (
	// DefaultLostAfter is how long a worker may say nothing until it is lost.
	DefaultLostAfter = 5 * time.Second
	// DefaultLeaderGoneAfter is how long a worker sends on without a leader. It has
	// ended what it does before ten seconds are over.
	DefaultLeaderGoneAfter = 8 * time.Second
	// lead is how far ahead the common start lies at least: a message has to reach
	// every worker, and each has to get ready.
	lead = 250 * time.Millisecond
	// leadTrips is by how many round trips of the slowest worker it lies further ahead.
	leadTrips = 8
	// flushEvery is how old the last records of a worker are when they leave, at most.
	flushInterval = 200 * time.Millisecond
	// pollFor is how long a question for the next message is held.
	pollTimeout = 2 * time.Second
	// answerWithin is how long the leader stays to answer what was asked before its end.
	shutdownTimeout = 2 * time.Second
	// probes is how often a clock is read before a part of the load.
	probes = 8
	// probeEvery is how often it is read meanwhile.
	probeInterval = time.Second
)

// header is the name of the header that says which worker asks, INDEX:TOKEN: the token is
// that which the leader gave it when it joined, and empty before.
const header = "Windtunnel-Worker"

// hello is how a worker asks to take part.
type hello struct {
	Secret string `json:"secret"` // by chance: whoever knows it asks again for what the answer to it was lost
	Binary string `json:"binary"` // which build it is
}

// welcome is the answer.
type welcome struct {
	Of    int    `json:"of"`    // workers in all
	Token string `json:"token"` // of this worker alone
	Plan  []byte `json:"plan"`
}

// message is what the leader tells all workers. They are numbered from 1, and every
// worker does them in that order.
type message struct {
	Seq  int             `json:"seq"`
	To   Group           `json:"to,omitzero"`    // prepare: who is to do it
	What string          `json:"what"`           // one of the words below
	Of   int             `json:"of,omitempty"`   // go, stop: the number of what was to be prepared
	At   clock.Time      `json:"at,omitempty"`   // go: the start, on the leader's clock
	Body json.RawMessage `json:"body,omitempty"` // prepare
}

// Group are some of the workers: From and those after it, below Below. The zero value
// is all.
type Group struct {
	From  int `json:"from"`
	Below int `json:"below"`
}

func (g Group) contains(worker int) bool {
	return g == Group{} || worker >= g.From && worker < g.Below
}

// What messages say.
const (
	prepare = "prepare" // get a part of the load ready
	begin   = "go"      // start it
	stop    = "stop"    // end it early, or do not start it
	leave   = "leave"   // the run is over
)

// report is what a worker tells the leader.
type report struct {
	Of    int             `json:"of"`   // the number of the message prepare; 0: of the whole run
	What  string          `json:"what"` // ready, ended, left, or progress
	Error string          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
	Size  int64           `json:"size,omitempty"` // left: bytes of its stream in all
	Clock
	Trip time.Duration `json:"trip_ns,omitempty"` // the shortest round trip
}

// What reports say.
const (
	ready = "ready"
	ended = "ended"
	left  = "left"
	// underWay says where a worker stands.
	underWay = "progress"
)

// stored is the answer to records: how many bytes of the stream the leader has.
type stored struct {
	Size int64 `json:"size"`
}
