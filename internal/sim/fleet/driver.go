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
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// Bounds of the driver.
const (
	perConnection = 100  // calls at once on one connection: what kube-apiserver allows
	reserved      = 8    // one in so many of them is kept for leases
	maxCreating   = 128  // nodes that are created at once: more would only make a slow server slower
	maxBacklog    = 8192 // jobs of pods before the watches are held back
	callTimeout   = 30 * time.Second
	maxSleep      = time.Hour // when no timer is set
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
	// build writes a job's request, as late as possible: bodies hold the time
	// and the versions of now. False means that there is nothing to send any more.
	build(*job) bool
	// settle decides what follows a job's answer.
	settle(*job)
	// abandon ends a job that nothing follows.
	abandon(*job)
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

	mu          sync.Mutex // guards what follows, and the state of the owners
	rng         *rand.Rand
	wheel       wheel.Wheel
	owners      [actions]owner
	ops         [actions]record.OpID
	queues      [classes]queue
	inFlight    int
	creating    int // of them, creations of nodes
	mayCreate   int // nodes at once: fewer after refusals, up to maxCreating
	maxInFlight int
	free        []*job

	retries, dropped  int
	stageLag, sendLag stats.Recent
	warned            map[string]bool
}

func newDriver(o Options, c client) *driver {
	e := &driver{
		cluster: o.Cluster,
		clock:   o.Clock, client: c, records: o.Records, log: o.Log, kick: make(chan struct{}, 1),
		rng: rand.New(rand.NewPCG(o.Seed, 0x666c656574)), maxInFlight: o.Connections * perConnection, mayCreate: maxCreating, warned: map[string]bool{},
	}
	e.wheel.Start(o.Clock.Now())
	e.defineOps()
	return e
}

// run takes turns until ctx ends: answers, timers, a batch of the watches, what
// is to be sent.
func (e *driver) run(ctx context.Context, events *eventQueue) {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	var spare []*job
	for {
		batches := events.batches
		if e.overloaded() {
			batches = nil // hold the watches back, and with them the server
		}
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
		spare = e.mail.exchange(spare)
		for _, j := range spare {
			e.settle(j)
		}
		clear(spare)
		e.wheel.Advance(e.clock.Now())
		events.process(b)
		e.dispatch()
		e.starved.Store(e.queued() > 0)
		wake, waits := e.wheel.Wake()
		answers := e.inFlight > 0
		e.mu.Unlock()
		if e.starved.Load() && !e.mail.empty() {
			e.wake() // what came before this was known did not
		}
		pause := maxSleep
		if waits {
			pause = max(e.clock.Until(wake), 0)
		}
		if answers {
			pause = min(pause, time.Duration(leaseGrid))
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

// queued returns how many jobs could not be sent yet.
func (e *driver) queued() (n int) {
	for i := range e.queues {
		n += e.queues[i].len()
	}
	return n
}

// recordLast records the answers that nobody has looked at yet.
func (e *driver) recordLast(spare []*job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range e.mail.exchange(spare) {
		e.recordCall(j)
	}
}

func (e *driver) overloaded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queues[classPod].len() > maxBacklog
}

// schedule lets a job wait for its time, or go. Those of a silent node are
// withheld until the node speaks again.
func (e *driver) schedule(j *job) {
	if fault := j.node.fault; fault.silent() || j.action == podReady && fault.hides() {
		fault.withhold(j)
		return
	}
	if j.dueAt > e.clock.Now() {
		e.wheel.Set(&j.Timer, j.dueAt)
		return
	}
	e.enqueue(j)
}

// enqueue puts a job where dispatch finds it.
func (e *driver) enqueue(j *job) {
	j.queued = true
	e.queues[j.action.class()].push(j)
}

// dispatch sends queued jobs: leases first, then nodes and pods in turn.
func (e *driver) dispatch() {
	for e.inFlight < e.maxInFlight {
		var q *queue
		switch nodes, pods := &e.queues[classNode], &e.queues[classPod]; {
		case e.queues[classLease].len() > 0:
			q = &e.queues[classLease]
		case e.inFlight >= e.maxInFlight-e.maxInFlight/reserved:
			return
		case nodes.len() > 0 && e.creating < e.mayCreate && (pods.len() == 0 || e.inFlight%2 == 0):
			q = nodes
		case pods.len() > 0:
			q = pods
		default:
			return
		}
		e.send(q.pop())
	}
}

// send lets a job's request be built and hands it to the client.
func (e *driver) send(j *job) {
	j.queued = false
	if o := e.owners[j.action]; j.cancelled || !o.build(j) {
		o.abandon(j)
		return
	}
	j.sending = true
	if j.action == nodeCreate {
		e.creating++
	}
	j.request.Timeout = callTimeout
	e.inFlight++
	e.client.Send(&j.request, j.done)
}

// settle records a finished call and hands it to its owner.
func (e *driver) settle(j *job) {
	e.inFlight--
	j.sending = false
	if j.action == nodeCreate {
		e.creating--
		e.allow(j)
	}
	e.recordCall(j)
	e.owners[j.action].settle(j)
}

// allow decides by the answer to a creation how many may be under way. A server that
// is behind stays behind while each call that it was too slow for comes again beside as
// many others; pauses between a call's tries alone do not change how many there are.
func (e *driver) allow(j *job) {
	switch {
	case j.answer.Retriable():
		e.mayCreate = max(1, e.mayCreate/2)
	case e.mayCreate < maxCreating:
		e.mayCreate++
	}
}

func (e *driver) recordCall(j *job) {
	if e.records != nil {
		e.records.Call(j.answer.Call(e.ops[j.action], j.dueAt))
	}
}

// countLag notes how late a stage was: what the fleet itself added, and all.
func (e *driver) countLag(j *job) {
	at := time.Duration(j.answer.Done)
	e.stageLag.Add(at, j.answer.Done.Sub(j.dueAt))
	e.sendLag.Add(at, j.answer.Sent.Sub(j.dueAt))
}

// proceed turns a job into the one that follows it; it stays due when it was.
func (e *driver) proceed(j *job, next action) {
	j.action = next
	if j.attempt++; j.attempt > 5 {
		e.retry(j, j)
		return
	}
	e.enqueue(j)
}

// retry sends a job that failed, or what was chosen in its place meanwhile, after
// a pause.
func (e *driver) retry(failed, next *job) {
	e.retries++
	if failed.attempt == 0 {
		e.log.Debug("retry", "call", failed.refusal())
	}
	if next != failed {
		next.attempt, next.answer.RetryAfter = failed.attempt, failed.answer.RetryAfter
		e.freeJob(failed)
	}
	pause := wire.CallBackoff().Jittered(next.attempt, e.rng.Float64())
	next.attempt++
	e.wheel.Set(&next.Timer, e.clock.Now().Add(max(pause, next.answer.RetryAfter)))
}

// drop gives up a job that the server will not have: counted, and said once for
// each kind of refusal.
func (e *driver) drop(j *job) {
	e.dropped++
	e.warnOnce(strconv.Itoa(int(j.action))+" "+strconv.Itoa(j.answer.Code), j.refusal().Error())
	e.owners[j.action].abandon(j)
}

// warnOnce warns once for each key.
func (e *driver) warnOnce(key, text string) {
	if !e.warned[key] {
		e.warned[key] = true
		e.warn(text)
	}
}

// warn tells the log and the records of something that a stage, or a node, asked for and
// that was not done. It needs no turn.
func (e *driver) warn(text string) {
	e.log.Warn("fleet", "what", text)
	if e.records != nil {
		e.records.Event(record.Unmet(e.clock.Now(), "the work of the fleet", record.NotDone, text))
	}
}

// note tells the log and the records of something that is to be known of the stages.
func (e *driver) note(text string) {
	e.log.Warn("fleet", "what", text)
	if e.records != nil {
		e.records.Event(record.Event{At: e.clock.Now(), Type: record.EventWarned, Name: "fleet", Text: text})
	}
}

// addStats adds the driver's part to a fleet's state.
func (e *driver) addStats(s *Stats) {
	at := time.Duration(e.clock.Now())
	s.InFlight, s.Queued, s.Waiting = e.inFlight, e.queued(), e.wheel.Len()
	s.Retries, s.Dropped = e.retries, e.dropped
	s.StageLag, s.SendLag = e.stageLag.Quantile(at, 0.99), e.sendLag.Quantile(at, 0.99)
}
