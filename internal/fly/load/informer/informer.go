// Package informer decides which request an informer sends next, as client-go's reflectors
// do (tools/cache/reflector.go, tools/pager and rest/with_retry.go of client-go v0.37). It
// knows no clock, no connection and no objects: versions, answers and times go in, requests
// come out.
package informer

import (
	"net/http"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

// Form is how an informer gets what exists.
type Form uint8

// The forms of informers.
const (
	None      Form = iota // no informer
	List                  // a list, and a watch from its version
	WatchList             // one watch that sends what exists first; a list where the server has none
)

// Kind is what a request is.
type Kind uint8

// The kinds of requests.
const (
	ListPage     Kind = iota // a list, or a further page of it
	Watch                    // a watch from a version
	InitialWatch             // a watch that sends what exists, and then a bookmark
)

// Ask is a request that an informer sends.
type Ask struct {
	Kind     Kind
	Version  string        // resourceVersion; empty: the newest
	Limit    int           // of a list: objects of a page; 0: all
	Continue string        // of a list: token of the page
	Timeout  time.Duration // of a watch: after which the server is to end it
	Pause    time.Duration // before it is sent
	Limited  bool          // the client's rate limiter counts it: client-go's lists and repeated requests, not its watches
	Relist   bool          // it gets what exists once more, after the informer had it all
}

// How says how a request ended.
type How uint8

// The ends of requests.
const (
	Answered    How = iota // the page of a list came
	Closed                 // a watch that was open ended, or its connection was closed
	Failed                 // a watch that was open ended by an event ERROR
	Refused                // the answer was no success
	Unreachable            // the connection was refused
	Cut                    // the connection was closed before there was an answer
	Unanswered             // there was no answer for another reason
)

// End is the end of a request.
type End struct {
	How        How
	Code       int           // with Failed and Refused
	RetryAfter time.Duration // with Refused; 0: the server did not say
	TooLarge   bool          // with Failed and Refused: the server does not have the version yet
	Version    string        // with Answered: resourceVersion of the list
	Continue   string        // with Answered: token of the next page
	Lasted     time.Duration // of a watch that was open
	Events     int           // of a watch that was open, bookmarks too
}

// Event is what a watch brings.
type Event uint8

// The events of watches.
const (
	Added      Event = iota
	Changed          // modified or deleted
	Bookmark         // with a version and nothing else
	InitialEnd       // the bookmark behind what existed
)

// The numbers of client-go.
const (
	firstPause = 800 * time.Millisecond
	lastPause  = 30 * time.Second
	resetAfter = 2 * time.Minute // the pauses begin anew
	minTimeout = 5 * time.Minute // of a watch: the most is twice that
	pageSize   = 500
	shortWatch = time.Second // a watch without an event that lasts no longer is a failure
	maxTries   = 10          // times that a request is sent again because the server asks for it
	cutPause   = time.Second // before a request is sent again whose connection was cut
)

// Informer is the state of an informer.
type Informer struct {
	form    Form
	asked   Ask
	version string // that it has come to; empty: none yet
	gone    bool   // the server does not have that version
	paged   bool   // the server pages lists although its cache was asked
	whole   bool   // it has had everything that exists

	pages   int    // of the list under way
	listed  string // version of the list under way
	renewed bool   // the list under way was begun again for the newest version

	current string // of an initial watch under way: the version that it has come to
	past    bool   // what comes now is no initial event
	synced  bool   // the initial watch has had its bookmark

	doublings int        // of the pause
	since     clock.Time // the pauses began anew
	tries     int        // of the request under way
}

// New returns an informer that begins at a time.
func New(form Form, now clock.Time) Informer { return Informer{form: form, since: now} }

// First returns the first request. Random numbers are in [0, 1).
func (i *Informer) First(random float64) Ask { return i.startOver(0, random) }

// Asked returns the request that is under way.
func (i *Informer) Asked() Ask { return i.asked }

// startOver begins again with all that exists.
func (i *Informer) startOver(pause time.Duration, random float64) Ask {
	if i.form == WatchList {
		return i.askInitial(pause, random)
	}
	return i.askList(pause)
}

func (i *Informer) ask(a Ask) Ask {
	i.asked, i.tries = a, 0
	return a
}

// askList asks for what exists by a list: the newest when the version that the informer
// has come to is gone, otherwise something no older than it. The server's cache answers the
// latter, but only without a limit.
func (i *Informer) askList(pause time.Duration) Ask {
	i.pages, i.listed, i.renewed = 0, "", false
	return i.askFirstPage(pause)
}

func (i *Informer) askFirstPage(pause time.Duration) Ask {
	a := Ask{Kind: ListPage, Version: i.version, Limit: pageSize, Pause: pause, Limited: true, Relist: i.whole}
	switch {
	case i.gone:
		a.Version = ""
	case i.version == "":
		a.Version = "0"
	case !i.paged:
		a.Limit = 0
	}
	return i.ask(a)
}

func (i *Informer) askInitial(pause time.Duration, random float64) Ask {
	i.current, i.past, i.synced = "", false, false
	a := Ask{Kind: InitialWatch, Version: i.version, Timeout: timeout(random), Pause: pause, Relist: i.whole}
	if i.gone {
		a.Version = ""
	}
	return i.ask(a)
}

func (i *Informer) askWatch(pause time.Duration, random float64) Ask {
	return i.ask(Ask{Kind: Watch, Version: i.version, Timeout: timeout(random), Pause: pause})
}

func timeout(random float64) time.Duration {
	return minTimeout + time.Duration(random*float64(minTimeout)).Truncate(time.Second)
}

// pause returns the next pause: twice as long as the one before, and up to as much again at
// random. Every two minutes the pauses are short again.
func (i *Informer) pause(now clock.Time, random float64) time.Duration {
	if now.Sub(i.since) > resetAfter {
		i.doublings, i.since = 0, now
	}
	d := Pause(i.doublings, random)
	i.doublings++
	return d
}

// Pause returns the pause after so many failures: 0.8 s to 30 s, and up to as much again, so that
// the clients of a server that ended do not come back together; random is in [0, 1).
func Pause(failures int, random float64) time.Duration {
	const doublings = 6 // one more than it takes to reach the last
	d := min(firstPause<<min(failures, doublings), lastPause)
	return d + time.Duration(random*float64(d))
}

// See takes an event of the watch under way. It tells whether the informer has now all that
// exists.
func (i *Informer) See(e Event, version string) (whole bool) {
	if i.asked.Kind == Watch || i.synced {
		i.version = version
		return false
	}
	if e != Added {
		i.past = true
	}
	if i.past {
		i.current = version
	}
	if e != InitialEnd {
		return false
	}
	i.synced, i.whole, i.gone = true, true, false
	i.version = i.current
	return true
}

// Open tells of the watch under way that it is open, and whether the informer has all that
// exists with that.
func (i *Informer) Open() (whole bool) {
	i.tries = 0
	return i.asked.Kind == Watch
}

// End takes the end of the request under way and returns the next one.
func (i *Informer) End(now clock.Time, e End, random float64) Ask {
	if again, after := i.repeats(e); again {
		i.tries++
		i.asked.Pause, i.asked.Limited = after, true
		return i.asked
	}
	switch {
	case i.asked.Kind == ListPage:
		return i.endList(now, e, random)
	case i.asked.Kind == InitialWatch && !i.synced:
		return i.endInitial(now, e, random)
	}
	return i.endWatch(now, e, random)
}

// repeats tells whether the same request is sent again, which client-go's REST client does
// beneath the reflector, and after which pause.
func (i *Informer) repeats(e End) (again bool, after time.Duration) {
	switch {
	case i.tries == maxTries:
		return false, 0
	case e.How == Cut:
		return true, cutPause
	case e.How == Refused && e.RetryAfter > 0 && (e.Code == http.StatusTooManyRequests || e.Code >= http.StatusInternalServerError):
		return true, e.RetryAfter
	}
	return false, 0
}

// isGone tells whether the server does not have the version that it was asked for: no more,
// or not yet.
func (e *End) isGone() bool {
	return (e.How == Refused || e.How == Failed) && (e.Code == http.StatusGone || e.TooLarge)
}

// isBusy tells whether the same watch may be opened later.
func (e *End) isBusy() bool {
	return e.How == Unreachable || (e.How == Refused || e.How == Failed) && e.Code == http.StatusTooManyRequests
}

// isShort tells whether a watch ended so soon that it counts as a failure.
func (e *End) isShort() bool {
	return e.How == Cut || e.How == Closed && e.Lasted < shortWatch && e.Events == 0
}

func (i *Informer) endList(now clock.Time, e End, random float64) Ask {
	a := i.asked
	switch {
	case e.How == Answered && e.Continue != "":
		if i.pages++; i.pages == 1 {
			i.listed = e.Version
		}
		return i.ask(Ask{Kind: ListPage, Limit: pageSize, Continue: e.Continue, Limited: true, Relist: a.Relist})
	case e.How == Answered:
		if i.pages == 0 {
			i.listed = e.Version
		}
		i.paged = i.paged || i.pages > 0 && i.version == "" && !i.gone
		i.version, i.gone, i.whole = i.listed, false, true
		return i.askWatch(0, random)
	case e.isGone() && e.Code == http.StatusGone && a.Continue != "":
		i.pages = 0
		a = i.askFirstPage(0)
		i.asked.Limit, a.Limit = 0, 0
		return a
	case e.isGone() && !i.renewed:
		i.gone, i.renewed, i.pages = true, true, 0
		return i.askFirstPage(0)
	}
	return i.startOver(i.pause(now, random), random)
}

func (i *Informer) endInitial(now clock.Time, e End, random float64) Ask {
	switch {
	case e.isBusy():
		return i.askInitial(i.pause(now, random), random)
	case e.isGone():
		i.gone = true
		return i.askInitial(0, random)
	case e.How == Closed && !e.isShort():
		return i.askInitial(0, random)
	}
	return i.askList(0)
}

func (i *Informer) endWatch(now clock.Time, e End, random float64) Ask {
	switch {
	case e.isBusy():
		return i.askWatch(i.pause(now, random), random)
	case e.How == Closed && !e.isShort():
		return i.askWatch(0, random)
	}
	return i.startOver(i.pause(now, random), random)
}
