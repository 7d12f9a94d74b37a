package fleet

import (
	"net/http"
	"strconv"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/engine"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
)

// action is what a job asks of the server.
type action uint8

const (
	nodeCreate action = iota
	nodeRead
	nodeStatus
	nodeDelete
	nodeCondition // what a disturbance makes of it; the body is there already
	leaseCreate
	leaseRead
	leaseRenew
	podStatus
	podDelete
	// What kubelets ask besides, in the traffic profile "kubelet".
	podToken
	podRead
	podPending
	podTerminating
	podEvent
	podReady // the kubelet's word against another's
	actions
)

// defineOps numbers the calls of each action in the records.
func (e *driver) defineOps() {
	if e.records == nil {
		return
	}
	for a, op := range [actions]record.Op{
		nodeCreate:     {Verb: "create", Resource: "nodes"},
		nodeRead:       {Verb: "get", Resource: "nodes"},
		nodeStatus:     {Verb: "patch", Resource: "nodes", Subresource: "status"},
		nodeDelete:     {Verb: "delete", Resource: "nodes"},
		nodeCondition:  {Verb: "patch", Resource: "nodes", Subresource: "status"},
		leaseCreate:    {Verb: "create", Resource: "leases.coordination.k8s.io"},
		leaseRead:      {Verb: "get", Resource: "leases.coordination.k8s.io"},
		leaseRenew:     {Verb: "update", Resource: "leases.coordination.k8s.io"},
		podStatus:      {Verb: "patch", Resource: "pods", Subresource: "status"},
		podDelete:      {Verb: "delete", Resource: "pods"},
		podToken:       {Verb: "create", Resource: "serviceaccounts", Subresource: "token"},
		podRead:        {Verb: "get", Resource: "pods"},
		podPending:     {Verb: "patch", Resource: "pods", Subresource: "status"},
		podTerminating: {Verb: "patch", Resource: "pods", Subresource: "status"},
		podEvent:       {Verb: "create", Resource: "events"},
		podReady:       {Verb: "patch", Resource: "pods", Subresource: "status"},
	} {
		op.Source, op.Scope, op.Cluster = "fleet", "resource", e.cluster
		e.ops[a] = e.records.Op(op)
	}
}

// The queues that jobs wait in. Leases go first: a late lease costs a node.
const (
	classLease uint8 = iota
	classCreate
	classNode
	classPod
)

func (a action) queueClass() uint8 {
	switch a {
	case leaseRead, leaseRenew:
		return classLease
	case nodeCreate:
		return classCreate
	case podStatus, podDelete, podToken, podRead, podPending, podTerminating, podEvent, podReady:
		return classPod
	default:
		return classNode
	}
}

// job is one thing to be done: a call, and what it is for. Jobs are reused.
type job struct {
	engine.Call[job]
	action  action
	node    *node
	pod     *pod // nil for jobs of nodes, and for events
	choice  stage.Choice
	goal    action // of a chain: what it leads to
	chained int    // of a chain: how many calls of it were sent
	body    []byte
	path    string // of an event, or of podReady
	uid     string // of podReady
	held    *heldReady
	request wire.Request
	answer  answer
	done    func(*wire.Response)
}

// answer is what is kept of a response.
type answer struct {
	wire.Response        // without its body
	version       uint64 // resourceVersion
	uid           string
	fleet         string
	message       string // of a refusal
	otherUID      bool   // refused: another object has that name now
}

// newJob takes a job from the free list.
func (e *driver) newJob(a action, n *node, p *pod, due clock.Time) *job {
	var j *job
	if last := len(e.free) - 1; last >= 0 {
		j, e.free = e.free[last], e.free[:last]
	} else {
		j = &job{}
		j.done = func(r *wire.Response) { e.deliverAnswer(j, r) }
		e.calls.Prepare(&j.Call, j)
	}
	j.node, j.pod, j.Due = n, p, due
	j.turnInto(a)
	return j
}

// enqueueNodeJob makes a job of a node that is due now.
func (e *driver) enqueueNodeJob(a action, n *node) *job {
	j := e.newJob(a, n, nil, e.clock.Now())
	e.calls.Enqueue(&j.Call)
	return j
}

// turnInto makes a job ask for something else.
func (j *job) turnInto(a action) { j.action, j.Class = a, a.queueClass() }

// freeJob ends a job that made nothing.
func (e *driver) freeJob(j *job) { e.finishJob(j, 0) }

// finishJob ends a job that made a version of its object. What was chosen for a pod
// meanwhile goes next.
func (e *driver) finishJob(j *job, made uint64) {
	if j.pod == nil || j.Cancelled() {
		e.calls.Free(&j.Call)
		return
	}
	e.calls.Finish(&j.pod.Object, made, e.clock.Now())
}

// keepJob takes a job that has ended, to be used again.
func (e *driver) keepJob(j *job) {
	switch {
	case j.held != nil:
		j.held.job = nil
	case j.pod == nil:
		j.node.forgetJob(j)
	}
	body := j.body[:0]
	if cap(body) > 16<<10 {
		body = nil
	}
	*j = job{Call: j.Call, done: j.done, body: body}
	if len(e.free) < maxFree {
		e.free = append(e.free, j)
	}
}

const maxFree = 4096

// deliverAnswer puts a response into the mailbox. It runs on the client's goroutine.
func (e *driver) deliverAnswer(j *job, r *wire.Response) {
	a := &j.answer
	*a = answer{Response: *r}
	a.Body = nil
	if raw, _, err := object.Unwrap(r.Body); err == nil && r.Err == nil {
		a.readObject(raw, j.action)
	} else if r.Code >= http.StatusBadRequest {
		a.readRefusal(object.ReadStatus(r.Body))
	}
	if e.mail.putJob(j, !j.needsNoFollowUp()) || e.starved.Load() {
		e.wake()
	}
}

// needsNoFollowUp tells whether nothing follows from an answer but that it is counted.
// Waking the driver for each lease's would cost more than all else about it.
func (j *job) needsNoFollowUp() bool { return j.action == leaseRenew && j.answer.Code == http.StatusOK }

func (a *answer) readObject(raw []byte, what action) {
	if a.Code >= http.StatusBadRequest {
		if s, err := object.DecodeStatus(raw); err == nil {
			a.readRefusal(s)
		}
		return
	}
	if what == nodeDelete {
		return
	}
	var m object.Meta
	if object.DecodeMeta(raw, &m) != nil {
		return
	}
	a.version = m.Version
	if what == nodeCreate || what == nodeRead {
		a.uid, a.fleet = string(m.UID), string(m.Fleet)
	}
}

func (a *answer) readRefusal(s object.Status) { a.message, a.otherUID = s.Message, s.OtherUID }

func (j *job) succeeded() bool { return j.answer.Outcome() == record.OK }

// refusalError is the error that says what the server would not do, and why.
func (j *job) refusalError() error {
	return &RefusedError{Method: j.request.Method, Path: j.request.Path, Code: j.answer.Code, Message: j.answer.message}
}

// RefusedError is an answer that another try would not change.
type RefusedError struct {
	Method, Path string
	Code         int
	Message      string
}

// Error says what was asked and what was answered.
func (e *RefusedError) Error() string {
	return e.Method + " " + e.Path + ": " + strconv.Itoa(e.Code) + " " + e.Message
}
