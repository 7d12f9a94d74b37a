// Package consistency checks what a plane answered to a probe step: that no acknowledged
// write is lost, none is invented or done twice, and that versions ascend.
//
// It needs no search, as a checker of linearizability does: resourceVersion is the order
// in which the store says that it has done the writes, and each write has a value of its
// own. It knows no plane and no clock but that of the records.
package consistency

import (
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Verbs of accesses.
const (
	Create = "create"
	Update = "update"
	Delete = "delete"
	Get    = "get"
	List   = "list"
	Watch  = "watch"
)

// Access is what a write or a read said of one object, or an event of a watch.
type Access struct {
	Verb string
	record.Access
}

// write is a create, update or delete.
func (a Access) write() bool { return a.Verb == Create || a.Verb == Update || a.Verb == Delete }

// acknowledged tells whether it was answered with success.
func (a Access) acknowledged() bool { return a.Outcome == record.OK }

// refused tells whether the answer says that nothing was done. An answer of 500 and above
// says no such thing: the store may have done it.
func (a Access) refused() bool {
	return a.Outcome == record.Failed && a.Code < 500
}

// mayBeDoneBy tells whether the effect of a write may be seen by who looked until t.
func (a Access) mayBeDoneBy(t clock.Time) bool { return !a.refused() && a.Sent < t }

// Rule names what was violated.
type Rule string

// The rules.
const (
	Lost      Rule = "lost"      // an acknowledged write is not in a final list
	Invented  Rule = "invented"  // an object has a value that nobody wrote, or whose write was refused
	Doubled   Rule = "doubled"   // one write was done twice
	Unordered Rule = "unordered" // a later write has no greater version
	Stale     Rule = "stale"     // a read does not have what was acknowledged before it was sent
	Missed    Rule = "missed"    // a watch did not bring a change, or brought one late or twice
	Diverged  Rule = "diverged"  // the final lists of two servers differ
)

// Violation is one violation of a rule.
type Violation struct {
	Rule Rule
	Key  string // the object's name; empty: of no single one
	Why  string // a clause
}

// Report is what a history shows.
type Report struct {
	Violations   []Violation
	Acknowledged int      // writes
	Unknown      int      // writes without an answer, or one of 500 and above
	TookEffect   int      // of those: they were seen
	Reads        int      // gets, lists and events of watches
	Gap          Gap      // the longest, of those in which a write was sent and not acknowledged
	Incomplete   []string // what could not be checked, each a clause: without it there is no pass
}

// Gap is a time in which no write was acknowledged: what was sent in it cannot be lost.
type Gap struct {
	From, To clock.Time
	Writes   int // sent in it and not acknowledged; 0: there is no gap
}

// Count returns the number of violations of a rule; all of them without one.
func (r Report) Count(rule Rule) (n int) {
	for _, v := range r.Violations {
		if rule == "" || v.Rule == rule {
			n++
		}
	}
	return n
}
