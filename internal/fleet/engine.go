package fleet

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
)

// Bounds of the engine.
const (
	perConn     = 100                    // calls at once on one connection: what kube-apiserver allows
	reserved    = 8                      // one in so many of them is kept for leases
	maxBirths   = 128                    // nodes that are created at once: more would only make a slow server slower
	maxBacklog  = 8192                   // jobs of pods before the watches are held back
	firstRetry  = 100 * time.Millisecond // doubled with each attempt
	lastRetry   = 30 * time.Second
	callTimeout = 30 * time.Second
	dozes       = time.Hour // sleep when no timer is set
)

// run owns the fleet's state until ctx ends: it takes answers, fires timers,
// takes what the watches bring and sends what is due.
func (f *Fleet) run(ctx context.Context) {
	sleep := time.NewTimer(0)
	defer sleep.Stop()
	var spare []*job
	for {
		batches := f.batches
		if f.backlog() {
			batches = nil // hold the watches back, and with them the server
		}
		var b batch
		select {
		case <-ctx.Done():
			f.last(spare)
			return
		case <-f.kick:
		case <-sleep.C:
		case b = <-batches:
		}
		f.mu.Lock()
		spare = f.mail.take(spare)
		for _, j := range spare {
			f.settle(j)
		}
		clear(spare)
		f.wheel.Advance(f.clock.Now())
		f.take(b)
		f.dispatch()
		f.starved.Store(f.waiting())
		wake, waits := f.wheel.Wake()
		answers := f.inFlight > 0
		f.mu.Unlock()
		if f.starved.Load() && !f.mail.empty() {
			f.wake() // what came before this was known did not
		}
		doze := dozes
		if waits {
			doze = max(f.clock.Until(wake), 0)
		}
		if answers {
			doze = min(doze, time.Duration(leaseGrid))
		}
		sleep.Reset(doze)
	}
}

// waiting tells whether jobs could not be sent.
func (f *Fleet) waiting() bool {
	for i := range f.queues {
		if f.queues[i].len() > 0 {
			return true
		}
	}
	return false
}

// last records the answers that nobody has looked at yet.
func (f *Fleet) last(spare []*job) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, j := range f.mail.take(spare) {
		f.recordCall(j)
	}
}

func (f *Fleet) backlog() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queues[classPod].len() > maxBacklog
}

// enqueue puts a job where dispatch finds it; callers hold mu.
func (f *Fleet) enqueue(j *job) {
	j.queued = true
	f.queues[j.action.class()].push(j)
}

// dispatch sends queued jobs: leases first, then nodes and pods in turn.
func (f *Fleet) dispatch() {
	for f.inFlight < f.maxInFlight {
		var q *queue
		switch nodes, pods := &f.queues[classNode], &f.queues[classPod]; {
		case f.queues[classLease].len() > 0:
			q = &f.queues[classLease]
		case f.inFlight >= f.maxInFlight-f.maxInFlight/reserved:
			return
		case nodes.len() > 0 && f.births < maxBirths && (pods.len() == 0 || f.inFlight%2 == 0):
			q = nodes
		case pods.len() > 0:
			q = pods
		default:
			return
		}
		f.send(q.pop())
	}
}

// send builds a job's request and hands it over.
func (f *Fleet) send(j *job) {
	j.queued = false
	f.lead(j)
	if j.cancelled || !f.build(j) {
		f.dropJob(j)
		return
	}
	j.sending = true
	if j.action == nodeCreate {
		f.births++
	}
	j.request.Timeout = callTimeout
	f.inFlight++
	f.client.Send(&j.request, j.done)
}

// settle takes a finished call: it is recorded, and what follows is decided by
// what the server said.
func (f *Fleet) settle(j *job) {
	f.inFlight--
	j.sending = false
	if j.action == nodeCreate {
		f.births--
	}
	a := &j.answer
	f.recordCall(j)
	ok := a.Outcome() == record.OK
	switch {
	case j.node.state == nodeLeaving && j.action <= nodeRead:
		f.settleLeaving(j, ok)
	case j.link > 0 && j.action != j.then && !a.Retriable():
		f.follows(j)
	case ok:
		f.succeeded(j)
	case j.cancelled:
		f.dropJob(j)
	case a.Retriable():
		f.retry(j)
	default:
		f.refused(j)
	}
}

func (f *Fleet) recordCall(j *job) {
	if f.records == nil {
		return
	}
	f.records.Call(j.answer.Call(f.ops[j.action], j.asked))
}

// succeeded does what follows an answer of 200 or 201.
func (f *Fleet) succeeded(j *job) {
	a := &j.answer
	switch j.action {
	case nodeCreate, nodeRead:
		f.nodeMade(j)
		return
	case leaseCreate, leaseRenew:
		if j.action == leaseRenew {
			f.stats.lease.Add(time.Duration(a.Done), a.Done.Sub(j.asked))
		}
		f.leaseHeld(j)
	case leaseRead:
		j.node.lease = a.version
		f.again(j, leaseRenew)
		return
	case nodeStatus:
		f.lagged(j)
		f.nodePatched(j)
	case podEvent:
	case nodeDelete:
		f.nodeDeleted(j, true)
	case nodeCondition:
	case podStatus, podDelete:
		f.lagged(j)
		f.report(j)
		f.podPlayed(j)
		return
	}
	f.freeJob(j)
}

// lagged counts how late a stage was: what the fleet itself added, and all.
func (f *Fleet) lagged(j *job) {
	at := time.Duration(j.answer.Done)
	f.stats.lag.Add(at, j.answer.Done.Sub(j.asked))
	f.stats.sendLag.Add(at, j.answer.Sent.Sub(j.asked))
}

// refused does what follows an answer that another try would not change.
func (f *Fleet) refused(j *job) {
	gone, conflict := j.answer.Code == http.StatusNotFound, j.answer.Code == http.StatusConflict
	switch {
	case j.action == nodeCreate && conflict:
		f.again(j, nodeRead)
	case j.action == nodeCreate || j.action == nodeRead:
		f.fail(f.refusal(j))
		f.dropped(j)
	case j.action == leaseCreate && gone:
		f.retry(j) // a young plane has no namespace for leases yet
	case (j.action == leaseRenew || j.action == leaseCreate) && conflict:
		f.again(j, leaseRead)
	case (j.action == leaseRenew || j.action == leaseRead) && gone:
		f.again(j, leaseCreate)
	case j.action == nodeDelete:
		f.nodeDeleted(j, gone)
		f.freeJob(j)
	case j.pod == nil && j.action.class() == classPod:
		f.freeJob(j) // it went away meanwhile, or it was an event
	case j.action == podDelete && gone:
		f.podPlayed(j) // somebody was faster
	case j.action == podStatus && gone:
		f.podPlayed(j) // its end is on the way
	case j.action.class() == classPod && conflict:
		f.retry(j) // a pod of another uid means that this one's end is on the way
	default:
		f.dropped(j)
	}
}

// again turns a job into the one that follows it; it stays due when it was.
func (f *Fleet) again(j *job, next action) {
	if j.attempt++; j.attempt > 5 {
		j.action = next
		f.retry(j)
		return
	}
	j.action = next
	f.enqueue(j)
}

// retry sends a job again after a pause.
func (f *Fleet) retry(j *job) {
	f.stats.retries++
	if j.attempt == 0 {
		f.log.Debug("retry", "call", f.refusal(j))
	}
	if p := j.pod; p != nil && p.next != nil {
		j = f.replaced(p) // what was chosen meanwhile goes in its place
	}
	pause := min(firstRetry<<min(j.attempt, 10), lastRetry)
	pause = time.Duration(float64(pause) * (0.8 + 0.4*f.rng.Float64()))
	j.attempt++
	f.wheel.Set(&j.Timer, f.clock.Now().Add(max(pause, j.answer.RetryAfter)))
}

// replaced puts a pod's next job in the place of the one that failed.
func (f *Fleet) replaced(p *pod) *job {
	old, j := p.job, p.next
	j.attempt, j.answer.RetryAfter = old.attempt, old.answer.RetryAfter
	p.job, p.next = j, nil
	f.freeJob(old)
	return j
}

// dropped gives a job up: counted, and said once for each kind of refusal.
func (f *Fleet) dropped(j *job) {
	f.stats.dropped++
	key := strconv.Itoa(int(j.action)) + " " + strconv.Itoa(j.answer.Code)
	if !f.warned[key] {
		f.warned[key] = true
		f.warn(f.refusal(j).Error())
	}
	f.dropJob(j)
}

// warn tells the log and the records.
func (f *Fleet) warn(text string) {
	f.log.Warn("fleet", "what", text)
	if f.records != nil {
		f.records.Event(record.Event{At: f.clock.Now(), Type: record.EventWarned, Name: "fleet", Text: text})
	}
}

// dropJob frees a job that is not followed by anything.
func (f *Fleet) dropJob(j *job) {
	if j.pod != nil {
		f.podIdle(j.pod, 0)
	}
	if j.node != nil {
		j.node.forget(j)
	}
	f.freeJob(j)
}
