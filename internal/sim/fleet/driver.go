package fleet

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/engine"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Bounds of the driver.
const (
	perConnection = 100  // calls at once on one connection: what kube-apiserver allows
	reserved      = 8    // one in so many of them is kept for leases
	maxCreating   = 128  // nodes that are created at once: more would only make a slow server slower
	maxBacklog    = 8192 // jobs of pods before the watches are held back
	callTimeout   = 30 * time.Second
)

// client is what a fleet needs of package wire.
type client interface {
	Send(*wire.Request, func(*wire.Response))
	Do(context.Context, *wire.Request) (*wire.Response, error)
	Stream(context.Context, *wire.Request, func([]byte) error) error
}

// owner is whose job it is: it says what is sent, and what follows the answer.
// Its methods are called in the driver's turn.
type owner interface {
	// buildRequest writes a job's request, as late as possible: bodies hold the time
	// and the versions of now. False means that there is nothing to send any more.
	buildRequest(*job) bool
	// settleAnswer decides what follows a job's answer.
	settleAnswer(*job)
}

// driver is a fleet's one thread of decisions: it fires timers, sends what is due
// as far as the server's limits allow, and hands answers and events to those
// whose state they change.
//
// Its lock guards the state of all of them: nodes, leases, pods, players'
// addresses, injected faults. A turn is what happens while it holds the lock.
type driver struct {
	clock   clock.Clock
	client  client
	records *record.Writer // may be nil
	cluster string         // the member that its calls are to, for the records
	log     *slog.Logger
	kick    chan struct{} // the mailbox or the queues have something
	mail    mailbox
	starved atomic.Bool // jobs wait for the end of others: every answer counts

	mu     sync.Mutex // guards what follows, and the state of the owners
	rng    *rand.Rand
	calls  engine.Engine[job]
	owners [actions]owner
	ops    [actions]record.OpID
	free   []*job

	retries, dropped  int
	stageLag, sendLag stats.Recent
	warned            map[string]bool
}

func newDriver(o Options, c client) *driver {
	e := &driver{
		cluster: o.Cluster,
		clock:   o.Clock, client: c, records: o.Records, log: o.Log, kick: make(chan struct{}, 1),
		rng: rand.New(rand.NewPCG(o.Seed, 0x666c656574)), warned: map[string]bool{},
	}
	most := o.Connections * perConnection
	e.calls = engine.Engine[job]{
		Classes: []engine.Class[job]{classLease: {}, classCreate: {Max: maxCreating}, classNode: {}, classPod: {}}, Max: most, Reserved: most / reserved,
		Backoff: func(attempt int) time.Duration { return wire.CallBackoff().Jittered(attempt, e.rng.Float64()) }, Freed: e.keepJob,
	}
	e.calls.Start(o.Clock.Now())
	e.defineOps()
	return e
}

// run takes turns until ctx ends: answers, timers, a batch of the watches, what
// is to be sent.
func (e *driver) run(ctx context.Context, events *eventQueue) {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	var spare []*job
	for batches := events.batches; ; {
		var b batch
		select {
		case <-ctx.Done():
			e.recordLast(spare)
			return
		case <-e.kick:
		case <-sleep.C:
		case b = <-batches:
		}
		e.mu.Lock()
		spare = e.mail.exchangeJobs(spare)
		for _, j := range spare {
			e.settleJob(j)
		}
		clear(spare)
		e.calls.Advance(e.clock.Now())
		events.processBatch(b)
		for j := e.calls.Next(); j != nil; j = e.calls.Next() {
			e.sendJob(j)
		}
		e.starved.Store(e.calls.Queued() > 0)
		if batches = events.batches; e.calls.QueuedIn(classPod) > maxBacklog {
			batches = nil // hold the watches back, and with them the server
		}
		pause := e.calls.Pause(e.clock.Now())
		if e.calls.UnderWay() > 0 {
			pause = min(pause, time.Duration(leaseGrid))
		}
		e.mu.Unlock()
		if e.starved.Load() && !e.mail.isEmpty() {
			e.wake() // what came before this was known did not
		}
		sleep.Reset(pause)
	}
}

// wake lets the driver take a turn soon.
func (e *driver) wake() {
	select {
	case e.kick <- struct{}{}:
	default:
	}
}

// recordLast records the answers that nobody has looked at yet.
func (e *driver) recordLast(spare []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.mail.exchangeJobs(spare) {
		e.recordCall(j)
	}
}

// sendJob lets a job's request be built and hands it to the client. Jobs of a silent
// node are withheld until the node speaks again, but for its deletion.
func (e *driver) sendJob(j *job) {
	if fault := j.node.fault; fault.isSilent() && !j.node.hasEnded() || j.action == podReady && fault.hidesStatus() {
		e.calls.Hold(&j.Call, &fault.withheld)
		return
	}
	if !e.owners[j.action].buildRequest(j) {
		e.freeJob(j)
		return
	}
	j.request.Timeout = callTimeout
	e.calls.Send(&j.Call)
	e.client.Send(&j.request, j.done)
}

// settleJob records a finished call and hands it to its owner.
func (e *driver) settleJob(j *job) {
	e.calls.Answer(&j.Call, j.answer.Retriable())
	e.recordCall(j)
	e.owners[j.action].settleAnswer(j)
}

func (e *driver) recordCall(j *job) {
	if e.records != nil {
		e.records.Call(j.answer.Call(e.ops[j.action], j.Due))
	}
}

// countLag notes how late a stage was: what the fleet itself added, and all.
func (e *driver) countLag(j *job) {
	at := time.Duration(j.answer.Done)
	e.stageLag.Add(at, j.answer.Done.Sub(j.Due))
	e.sendLag.Add(at, j.answer.Sent.Sub(j.Due))
}

// proceedWith turns a job into the one that follows it; it stays due when it was.
func (e *driver) proceedWith(j *job, next action) {
	j.turnInto(next)
	if j.Attempt++; j.Attempt > 5 {
		e.retryJob(j)
		return
	}
	e.calls.Enqueue(&j.Call)
}

// retryJob sends a job that failed again after a pause, or what was chosen for its pod
// meanwhile in its place.
func (e *driver) retryJob(j *job) {
	e.retries++
	if j.Attempt == 0 {
		e.log.Debug("retry", "call", j.refusalError())
	}
	next, pause := j, j.answer.RetryAfter
	if j.pod != nil {
		next = e.calls.Replace(&j.pod.Object)
	}
	e.calls.Retry(&next.Call, e.clock.Now(), pause)
}

// dropJob gives up a job that the server will not have: counted, and said once for
// each kind of refusal.
func (e *driver) dropJob(j *job) {
	e.dropped++
	e.warnOnce(strconv.Itoa(int(j.action))+" "+strconv.Itoa(j.answer.Code), j.refusalError().Error())
	e.freeJob(j)
}

// warnOnce warns once for each key.
func (e *driver) warnOnce(key, text string) {
	if !e.warned[key] {
		e.warned[key] = true
		e.warnUnmet(text)
	}
}

// warnUnmet tells the log and the records of something that a stage, or a node, asked for and
// that was not done. It needs no turn.
func (e *driver) warnUnmet(text string) {
	e.log.Warn("fleet", "what", text)
	if e.records != nil {
		e.records.Event(record.Unmet(e.clock.Now(), "the work of the fleet", record.NotDone, text))
	}
}

// noteWarning tells the log and the records of something that is to be known of the stages.
func (e *driver) noteWarning(text string) {
	e.log.Warn("fleet", "what", text)
	if e.records != nil {
		e.records.Event(record.Event{At: e.clock.Now(), Type: record.EventWarned, Name: "fleet", Text: text})
	}
}

// addStats adds the driver's part to a fleet's state.
func (e *driver) addStats(s *Stats) {
	at := time.Duration(e.clock.Now())
	s.InFlight, s.Queued, s.Waiting = e.calls.UnderWay(), e.calls.Queued(), e.calls.Len()
	s.Retries, s.Dropped = e.retries, e.dropped
	s.StageLag, s.SendLag = e.stageLag.Quantile(at, 0.99), e.sendLag.Quantile(at, 0.99)
}
