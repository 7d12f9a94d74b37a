package fleet

import (
	"net/http"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
	"github.com/windtunnel/windtunnel/internal/fleet/wheel"
	"github.com/windtunnel/windtunnel/internal/record"
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
	podLook
	podWaiting
	podKilling
	podEvent
	actions
)

// defineOps numbers the calls of each action in the records.
func (f *Fleet) defineOps() {
	if f.records == nil {
		return
	}
	for a, op := range [actions]record.Op{
		nodeCreate:    {Verb: "create", Resource: "nodes"},
		nodeRead:      {Verb: "get", Resource: "nodes"},
		nodeStatus:    {Verb: "patch", Resource: "nodes", Subresource: "status"},
		nodeDelete:    {Verb: "delete", Resource: "nodes"},
		nodeCondition: {Verb: "patch", Resource: "nodes", Subresource: "status"},
		leaseCreate:   {Verb: "create", Resource: "leases.coordination.k8s.io"},
		leaseRead:     {Verb: "get", Resource: "leases.coordination.k8s.io"},
		leaseRenew:    {Verb: "update", Resource: "leases.coordination.k8s.io"},
		podStatus:     {Verb: "patch", Resource: "pods", Subresource: "status"},
		podDelete:     {Verb: "delete", Resource: "pods"},
		podToken:      {Verb: "create", Resource: "serviceaccounts", Subresource: "token"},
		podLook:       {Verb: "get", Resource: "pods"},
		podWaiting:    {Verb: "patch", Resource: "pods", Subresource: "status"},
		podKilling:    {Verb: "patch", Resource: "pods", Subresource: "status"},
		podEvent:      {Verb: "create", Resource: "events"},
	} {
		op.Source, op.Scope = "fleet", "resource"
		f.ops[a] = f.records.Op(op)
	}
}

// class is the queue that a job waits in. Leases go first: a late lease costs
// a node.
type class uint8

const (
	classLease class = iota
	classNode
	classPod
	classes
)

func (a action) class() class {
	switch a {
	case leaseRead, leaseRenew:
		return classLease
	case podStatus, podDelete, podToken, podLook, podWaiting, podKilling, podEvent:
		return classPod
	default:
		return classNode
	}
}

// job is one thing to be done: a call, and what it is for. Jobs are reused.
type job struct {
	wheel.Timer // of a delay or a retry
	action      action
	node        *node
	pod         *pod // nil for jobs of nodes, and when the pod went away
	choice      stage.Choice
	then        action     // of a chain: what it leads to
	link        int        // of a chain: how many calls of it were sent
	asked       clock.Time // when it was due; the timer's due may be that of a retry
	attempt     int
	version     uint64 // of the object that the stage was chosen for
	queued      bool
	withheld    bool // its node is silent
	sending     bool // it is with the server
	cancelled   bool
	body        []byte
	path        string // of an event
	request     wire.Request
	answer      answer
	done        func(*wire.Response)
}

// answer is what is kept of a response.
type answer struct {
	wire.Response        // without its body
	version       uint64 // resourceVersion
	uid           string
	fleet         string
	message       string // of a refusal
}

// newJob takes a job from the free list; callers hold mu.
func (f *Fleet) newJob(a action, n *node, p *pod, due clock.Time) *job {
	var j *job
	if last := len(f.free) - 1; last >= 0 {
		j, f.free = f.free[last], f.free[:last]
	} else {
		j = &job{}
		j.done = func(r *wire.Response) { f.post(j, r) }
		j.Fire = func() { f.place(j) }
	}
	j.action, j.node, j.pod, j.asked = a, n, p, due
	return j
}

// freeJob gives a job back; callers hold mu.
func (f *Fleet) freeJob(j *job) {
	f.wheel.Stop(&j.Timer)
	body := j.body[:0]
	if cap(body) > 16<<10 {
		body = nil
	}
	*j = job{Timer: wheel.Timer{Fire: j.Fire}, done: j.done, body: body}
	if len(f.free) < maxFree {
		f.free = append(f.free, j)
	}
}

const maxFree = 4096

// post takes a response into the mailbox. It runs on the client's goroutine.
func (f *Fleet) post(j *job, r *wire.Response) {
	a := &j.answer
	*a = answer{Response: *r}
	a.Body = nil
	if raw, _, err := object.Unwrap(r.Body); err == nil && r.Err == nil {
		a.read(raw, j.action)
	} else if r.Code >= http.StatusBadRequest {
		a.message = object.ReadStatus(r.Body).Message
	}
	if f.mail.put(j, !j.idle()) || f.starved.Load() {
		f.wake()
	}
}

// idle tells whether nothing follows from an answer but that it is counted.
// Waking the engine for each lease's would cost more than all else about it.
func (j *job) idle() bool { return j.action == leaseRenew && j.answer.Code == http.StatusOK }

func (a *answer) read(raw []byte, what action) {
	if a.Code >= http.StatusBadRequest {
		if s, err := object.DecodeStatus(raw); err == nil {
			a.message = s.Message
		}
		return
	}
	if what == podDelete || what == nodeDelete {
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

// mailbox holds finished jobs until the engine takes them.
type mailbox struct {
	mu     sync.Mutex
	jobs   []*job
	urgent bool // the engine is to look at once, and has been told
}

// put adds a job; true when the engine must be told.
func (m *mailbox) put(j *job, urgent bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.jobs = append(m.jobs, j)
	tell := urgent && !m.urgent
	m.urgent = m.urgent || urgent
	return tell
}

func (m *mailbox) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.jobs) == 0
}

// take returns all jobs and leaves spare in their place.
func (m *mailbox) take(spare []*job) []*job {
	m.mu.Lock()
	defer m.mu.Unlock()
	jobs := m.jobs
	m.jobs, m.urgent = spare[:0], false
	return jobs
}

// queue is a first-in-first-out queue of jobs that reuses its memory.
type queue struct {
	jobs []*job
	head int
}

func (q *queue) len() int { return len(q.jobs) - q.head }

func (q *queue) push(j *job) {
	if len(q.jobs) == cap(q.jobs) && q.head > len(q.jobs)/2 {
		n := copy(q.jobs, q.jobs[q.head:])
		clear(q.jobs[n:])
		q.jobs, q.head = q.jobs[:n], 0
	}
	q.jobs = append(q.jobs, j)
}

func (q *queue) pop() *job {
	j := q.jobs[q.head]
	q.jobs[q.head] = nil
	if q.head++; q.head == len(q.jobs) {
		q.jobs, q.head = q.jobs[:0], 0
	}
	return j
}
