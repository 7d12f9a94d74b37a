package load

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load/informer"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Pacer says when the i-th call is due, from the begin of its step on. Rate is
// the mean number of calls per second that it asks for, +Inf for a burst. The
// paces of package pace are such.
type Pacer interface {
	// Due never goes back, and is the largest duration for a call that never comes.
	Due(i int) time.Duration
	Rate() float64
}

// Pool is the ability of a closed pace: so many calls at a time, each next one
// when an answer came. Its calls have no due times; they are recorded as due
// when they were sent, and the mark "requested" says so: their latency is
// service time. 0 is no pool.
type Pool interface {
	Parallel() int
}

// Plan is one stretch of load: calls of one kind or of several, at the times
// that a pace says.
type Plan struct {
	Step  string        // in marks; empty: that of the first of Ops
	Ops   []record.Op   // what its calls are; Build says which one a call is
	Count int           // calls; 0: as many as fall due in For
	For   time.Duration // no call, retries included, is due later than this after the begin; 0: no such bound
	Pace  Pacer
	Retry Retry
	// Anew has each call open a connection of its own, with TLS, and close it after the answer:
	// its latency has all of that. No call of such a plan may be a watch.
	Anew bool
	// Clients, when set, send the calls, each in turn: to the plane, and not with Anew or Share.
	Clients *Clients
	// Share is of the calls. When they are due, which verb they have and what they are
	// about is not the share's affair. The zero value is all of them.
	Share share.Share
	Begin clock.Time // what the pace counts from, on the generator's clock; 0: when Run has come so far

	// Build fills the i-th call. It may leave it out (false). Build is called
	// by one goroutine, in the order of i, shortly before the call is sent; for
	// a retry it is called again and must make the same call.
	Build func(i int, req *Request) (bool, error)
	// Then, when set, is asked after each call with outcome OK whether another
	// one follows it, due at once: it fills req and returns true. r is the
	// answer of call number Chain, as in Result; its body was kept if that
	// call's Discard was set to false. It is called from several goroutines
	// and must be quick. A call of Then that is to be sent again begins with
	// Build again, since what it was made of is out of date.
	Then func(r Result, req *Request) (bool, error)
	// Object, when set, names what the i-th call is about, for messages:
	// NAMESPACE/NAME, or nothing where that cannot be said.
	Object func(i int) string
	// Done, when set, is told each call's end. It must be quick; it is called
	// from several goroutines.
	Done func(r Result)
}

// Request is what a plan's Build and Then fill in. Body comes as an empty slice
// whose memory may be used; it stays empty for a call without a body. Discard
// comes set. A call with Hold is a watch: it ends when the watch is open, or
// with the first bookmark where initial events were asked for, and the watch is
// then held for so long. Data and Opened are not for plans.
type Request struct {
	wire.Request
	Op     int  // which of the plan's Ops it is
	Member int  // where it is sent: 0, the plane; or what AddMember gave
	Pages  bool // a list with a limit: its further pages are read too, each in a call that is due when the page before came
	// Informer makes a watch of clients an informer: its lists and watches are made of this
	// request, whose path has their selectors alone, and it informs itself for Hold.
	Informer informer.Form
	ListOp   int // with Informer: the operation of its lists
}

// Strict has the server refuse a body with a field that its kind does not have, or has
// twice: it would drop the field, and tell only in a header.
func (r *Request) Strict() {
	sep := "?"
	if strings.Contains(r.Path, sep) {
		sep = "&"
	}
	r.Path += sep + "fieldValidation=Strict"
}

// Result is how a call ended, or a watch that was open.
type Result struct {
	Index    int  // the i of Build
	Op       int  // of the plan's Ops
	Attempt  int  // 0: the first
	Chain    int  // 0: what Build made; n: the n-th call after it, made by Then or for a page
	Reached  bool // its refusal (there already, gone already) says that an attempt before it had been done
	Last     bool // nothing follows: no retry, no page, no call of Then
	Outcome  record.Outcome
	Response *wire.Response // valid only during the call

	// Of a watch, whose Result comes when it is closed again:
	Held   time.Duration // how long it was open
	Events int           // without bookmarks
	Bytes  int64
}

// Retry says which failed calls are sent again. Each attempt is a call of its
// own in the records, due when the one before it failed plus a delay.
type Retry struct {
	Times int   // attempts after the first
	Codes []int // nil: 429, 500 to 599, and calls that never left. 0 stands for calls whose answer was lost
	// Delay is that before the first of them; it doubles with each. A longer
	// Retry-After wins. 0: DefaultRetryDelay.
	Delay time.Duration
}

// DefaultRetryDelay is the delay before a first retry.
const DefaultRetryDelay = time.Second

// maxRetryDelay ends the doubling.
const maxRetryDelay = 5 * time.Minute

// Errors of plans.
var (
	// ErrBodies says that some bodies could not be made; the calls were not
	// sent and are counted as failed.
	ErrBodies = errors.New("bodies could not be made")
	// ErrPlan says that a plan cannot be sent as it is.
	ErrPlan = errors.New("no such load")
	// ErrNeverDue says that the pace ends before the calls that were asked for.
	ErrNeverDue = errors.New("the pace ends before them")
)

// checkPlan says what is wrong with a plan.
func (p *Plan) checkPlan() error {
	switch {
	case p.Pace == nil || p.Build == nil || len(p.Ops) == 0:
		return fmt.Errorf("%w: it needs Ops, a pace and Build", ErrPlan)
	case p.Count < 0 || p.For < 0:
		return fmt.Errorf("%w: %s for %v", ErrPlan, unit.Count(p.Count, "calls"), p.For)
	case p.Count == 0 && p.For > 0 && p.isEndless():
		return fmt.Errorf("%w: a burst needs a count", ErrPlan)
	case p.Clients != nil && (p.Anew || p.Share.Split()):
		return fmt.Errorf("%w: clients keep their connections, and are not shared", ErrPlan)
	case p.Retry.Times < 0 || p.Retry.Times > 255 || p.Retry.Delay < 0:
		return fmt.Errorf("%w: %s with a delay of %v", ErrPlan, unit.Count(p.Retry.Times, "retries"), p.Retry.Delay)
	}
	return p.checkShare()
}

// isEndless tells whether the pace has all of its calls at once and no end.
func (p *Plan) isEndless() bool {
	return p.parallelCalls() == 0 && math.IsInf(p.Pace.Rate(), 1) && p.Pace.Due(math.MaxInt32) == 0
}

// parallelCalls returns how many calls a closed pool has at a time; 0 when the pace
// is open.
func (p *Plan) parallelCalls() int {
	if pool, ok := p.Pace.(Pool); ok {
		return pool.Parallel()
	}
	return 0
}

// stepName returns the name that the plan's marks carry.
func (p *Plan) stepName() string {
	if p.Step != "" {
		return p.Step
	}
	return p.Ops[0].Step
}

// countCalls returns how many calls fall due; 0 for a closed pool that only time
// ends.
func (p *Plan) countCalls() (int, error) {
	if p.parallelCalls() > 0 {
		return p.Count, nil
	}
	if p.For <= 0 {
		if p.Count > 0 && p.Pace.Due(p.Count-1) == never {
			return 0, fmt.Errorf("%w: asked for %s", ErrNeverDue, unit.Count(p.Count, "calls"))
		}
		return p.Count, nil
	}
	n := 1 // beyond the last call
	for n < math.MaxInt32 && (p.Count == 0 || n < p.Count) && p.Pace.Due(n-1) <= p.For {
		n *= 2
	}
	if p.Count > 0 {
		n = min(n, p.Count)
	}
	return sort.Search(n, func(i int) bool { return p.Pace.Due(i) > p.For }), nil
}

// never is the due time of a call that does not come.
const never = time.Duration(math.MaxInt64)

// requestedDetail is what the mark "requested" says of so many calls: those of the share.
func (p *Plan) requestedDetail(calls int) record.Detail {
	out := record.Detail{Count: p.Share.Count(calls)}
	if n := p.parallelCalls(); n > 0 {
		out.Parallel = p.Share.Portion(n)
	} else {
		out.Rate = p.shareRate()
	}
	return out
}

// shareRate is the mean rate of the share's calls.
func (p *Plan) shareRate() float64 { return p.Pace.Rate() / float64(p.Share.Stride()) }

// Asked is what the plan asks for, however it is shared: how many calls, and their
// rate, or how many at a time.
func (p *Plan) Asked() (record.Detail, error) {
	calls, err := p.countCalls()
	whole := *p
	whole.Share = share.Share{}
	return whole.requestedDetail(calls), err
}
