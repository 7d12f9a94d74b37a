package fleet

import (
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/share"
	"github.com/windtunnel/windtunnel/internal/sim/stage"
	"github.com/windtunnel/windtunnel/internal/sim/wheel"
)

const (
	nodesPath = "/api/v1/nodes"
	patchType = "application/strategic-merge-patch+json"
)

// nodes are the nodes of a fleet, from their creation to their end, and the owner
// of the calls for them. Its methods are called in the driver's turn.
type nodes struct {
	driver   *driver
	template *nodeTemplate
	stages   *stages
	kept     object.Node // scratch: a node as it was kept
	leases   *leases
	kubelets *kubeletTraffic
	managed  *ManagedNodes // nil: the fleet makes its nodes
	share    share.Share   // of the nodes that the fleet makes
	hostIP   netip.Addr    // of every node; the zero address: one for each

	all       []*node
	byName    map[string]*node
	vacant    []uint32 // places in all
	elsewhere node     // stands for those of other instances
	relist    watch.Relist[*node]
	awaited   map[string]bool // nodes that had pods before they were known
	awaiting  wheel.Timer     // until their pods are listed again

	ready   chan struct{} // closed when all are schedulable
	failed  chan struct{} // closed when err is set
	err     error
	started bool
	stopped bool // Delete deletes them all
	leaving deletion

	created, schedulable, lost int
}

// planNodes makes the nodes that the fleet will create: of count in all, its share.
func (s *nodes) planNodes(count int) {
	all := make([]node, s.share.Count(count))
	s.byName = make(map[string]*node, len(all))
	for i := range all {
		n := &all[i]
		n.number = uint32(s.share.Index + i*s.share.Stride())
		s.addNode(n, s.template.nodeName(n.number))
		n.host = s.addressOf(n.number)
	}
}

// addressOf is that of a node with this number.
func (s *nodes) addressOf(number uint32) netip.Addr {
	if s.hostIP.IsValid() {
		return s.hostIP
	}
	return hostAddress(number)
}

// addNode gives a node its name and place.
func (s *nodes) addNode(n *node, name string) {
	n.name, n.index = name, uint32(len(s.all))
	if last := len(s.vacant) - 1; last >= 0 {
		n.index, s.vacant = s.vacant[last], s.vacant[:last]
		s.all[n.index] = n
	} else {
		s.all = append(s.all, n)
	}
	n.Fire = func() { s.fireTimer(n) }
	s.byName[name] = n
}

// beginCreation lets the nodes that do not exist yet be created, so many a second by all who
// share the fleet.
func (s *nodes) beginCreation(rate float64) {
	s.started = true
	now := s.driver.clock.Now()
	planned := 0
	for _, n := range s.all {
		if n.state == nodePlanned {
			s.driver.calls.Set(&n.Timer, now.Add(time.Duration(float64(s.share.Index+planned*s.share.Stride())/rate*float64(time.Second))))
			planned++
		}
	}
	s.checkReady()
}

// fireTimer does what is due of a node whose timer fired.
func (s *nodes) fireTimer(n *node) {
	due := n.Due
	switch n.state {
	case nodePlanned:
		n.state = nodeCreating
		n.job = s.driver.newJob(nodeCreate, n, nil, due)
		s.driver.calls.Enqueue(&n.job.Call)
		return
	case nodeAlive:
	default:
		return
	}
	if n.statusDue != 0 && n.statusDue <= due {
		if object.DecodeNode(n.kept, &s.kept) == nil {
			s.playStage(n, n.choice, &s.kept, n.statusDue)
		}
		n.statusDue = 0
	}
	if n.renewalDue != 0 && n.renewalDue <= due {
		s.leases.renewLease(n)
	}
	n.armTimer(&s.driver.calls.Wheel)
}

// takeOver takes a node that exists.
func (s *nodes) takeOver(n *node, uid string) {
	n.uid = uid
	if n.state == nodeAlive {
		return
	}
	n.state = nodeAlive
	s.created++
	s.kubelets.addNode(n.name)
	if s.stopped {
		return
	}
	s.leases.createLease(n)
	s.countSchedulable(n) // the watch may have been faster than the answer
}

// observeNode takes what the watch or a list says about a node.
func (s *nodes) observeNode(kind object.EventType, o *object.Node, raw []byte) {
	n := s.byName[string(o.Name)]
	if s.managed != nil {
		n = s.adoptNode(n, kind, o, raw)
	}
	if n == nil || s.managed == nil && string(o.Fleet) != s.template.fleet {
		return
	}
	if kind == object.Deleted {
		if string(o.UID) == n.uid {
			s.loseNode(n)
		}
		return
	}
	s.relist.Add(n)
	n.lookAt(o)
	if n.state == nodePlanned && !s.started { // of an earlier fleet of the same name
		s.takeOver(n, string(o.UID))
	}
	s.countSchedulable(n)
	if n.state != nodeAlive || s.stopped {
		return
	}
	if n.fault.hidesStatus() || s.managed.leavesAlone(raw) {
		n.statusDue = 0
		return
	}
	choice := s.stages.Node(o, s.driver.rng)
	switch now := s.driver.clock.Now(); {
	case choice.None():
		n.statusDue = 0
	case choice.Delay == 0:
		n.statusDue = 0
		s.playStage(n, choice, o, now)
	case n.statusDue == 0 || n.choice.Stage() != choice.Stage():
		n.choice, n.statusDue = choice, now.Add(s.kubelets.untilStatus(choice.Delay))
		n.armTimer(&s.driver.calls.Wheel)
	}
	if n.statusDue != 0 {
		n.kept = s.stages.Keep(n.kept[:0], choice, o)
	}
}

// adoptNode returns the node that an event is about: one that is kept alive, or is
// from now on; nil for the others.
func (s *nodes) adoptNode(n *node, kind object.EventType, o *object.Node, raw []byte) *node {
	mine := kind != object.Deleted && s.managed.ownsUID(o.UID) && s.managed.wantsNode(raw)
	switch {
	case n == nil && !mine:
		return nil
	case n == nil:
		n = &node{}
		s.addNode(n, string(o.Name))
		n.host = s.addressOf(n.index)
		s.takeOver(n, string(o.UID))
	case n.uid != string(o.UID) && mine: // another one of the same name
		s.loseNode(n)
		return s.adoptNode(nil, kind, o, raw)
	case !mine && kind != object.Deleted: // its annotation was taken away
		s.loseNode(n)
		return nil
	}
	if ip, err := netip.ParseAddr(string(o.InternalIP)); err == nil && !s.hostIP.IsValid() {
		n.host = ip
	}
	if s.awaited[n.name] {
		delete(s.awaited, n.name)
		if !s.awaiting.Waiting() {
			s.driver.calls.Set(&s.awaiting, s.driver.clock.Now().Add(adoptionWindow))
		}
	}
	return n
}

// adoptionWindow gathers nodes that are adopted together before pods are listed
// again for them.
const adoptionWindow = 500 * time.Millisecond

// hostOfPod returns the node of a pod that is played here; nil for another's.
func (s *nodes) hostOfPod(o *object.Pod) *node {
	n := s.byName[string(o.NodeName)]
	switch {
	case s.managed == nil:
		return n
	case s.managed.sharesPods(): // shared out by their own uids, wherever their nodes are
		if !s.managed.ownsUID(o.UID) {
			return nil
		}
		if n == nil {
			return &s.elsewhere
		}
	case n == nil && len(o.NodeName) > 0:
		s.awaited[string(o.NodeName)] = true
	}
	return n
}

// countSchedulable keeps the number of schedulable nodes.
func (s *nodes) countSchedulable(n *node) {
	is := n.state == nodeAlive && n.view.schedulable
	switch {
	case is && !n.view.counted:
		s.schedulable++
	case !is && n.view.counted:
		s.schedulable--
	}
	n.view.counted = is
	s.checkReady()
}

func (s *nodes) checkReady() {
	if !s.started || s.schedulable < len(s.byName) || s.stopped {
		return
	}
	select {
	case <-s.ready:
	default:
		close(s.ready)
	}
}

// failFleet ends the hope that the fleet becomes ready.
func (s *nodes) failFleet(err error) {
	if s.err == nil {
		s.err = err
		close(s.failed)
	}
}

// playStage asks for a stage on a node, unless one is on its way.
func (s *nodes) playStage(n *node, choice stage.Choice, o *object.Node, due clock.Time) {
	if n.statusJob != nil {
		return
	}
	j := s.driver.newJob(nodeStatus, n, nil, due)
	effect, err := s.stages.RenderNode(j.body[:0], choice, o, s.stages.stageEnv(s.driver.clock.Now(), nil))
	if err != nil {
		s.driver.warnUnmet(err.Error())
		s.driver.freeJob(j)
		return
	}
	j.choice, j.body, n.statusJob = choice, effect.Body, j
	s.driver.calls.Enqueue(&j.Call)
}

// loseNode ends a node that somebody deleted, or that is not to be kept alive any
// more.
func (s *nodes) loseNode(n *node) {
	if n.hasEnded() {
		return
	}
	n.state = nodeDeleted
	s.kubelets.removeNode(n.name)
	s.driver.calls.Stop(&n.Timer)
	s.lost++
	s.leases.releaseLease(n)
	s.countSchedulable(n)
	if s.managed != nil {
		delete(s.byName, n.name)
		s.all[n.index] = nil
		s.vacant = append(s.vacant, n.index)
	}
}

// endList ends the nodes that a list did not hold.
func (s *nodes) endList() {
	for _, n := range s.relist.End(func(yield func(*node) bool) {
		for _, n := range s.all {
			if n != nil && n.state == nodeAlive && n.view.seen && !yield(n) {
				return
			}
		}
	}) {
		s.loseNode(n)
	}
}

func (s *nodes) buildRequest(j *job) bool {
	n, r := j.node, &j.request
	if n.state == nodeDeleted || n.state == nodeLeaving && j.action != nodeDelete && j.action != nodeRead {
		return false
	}
	r.Accept, r.ContentType, r.Body = object.ContentType, object.ContentType, nil
	path := nodesPath + "/" + n.name
	now := s.driver.clock.Now()
	switch j.action {
	case nodeCreate:
		body, err := s.template.nodeBody(n.number, n.host, s.driver.clock.Wall(now))
		if err != nil {
			s.failFleet(err)
			return false
		}
		r.Method, r.Path, r.Body = http.MethodPost, nodesPath, body
	case nodeRead:
		r.Method, r.Path = http.MethodGet, path
	case nodeDelete:
		j.body = appendDelete(j.body[:0], n.uid)
		r.Method, r.Path, r.Body = http.MethodDelete, path, j.body
	case nodeStatus, nodeCondition:
		r.Method, r.Path, r.Body, r.ContentType = http.MethodPatch, path+"/status", j.body, patchType
	}
	return true
}

func (s *nodes) settleAnswer(j *job) {
	missing, conflict := j.answer.Code == http.StatusNotFound, j.answer.Code == http.StatusConflict
	switch {
	case j.node.state == nodeLeaving && (j.action == nodeCreate || j.action == nodeRead):
		s.leaving.settleCreation(j)
	case j.succeeded():
		s.settleSuccess(j)
	case j.answer.Retriable():
		s.driver.retryJob(j)
	case j.action == nodeCreate && conflict:
		s.driver.proceedWith(j, nodeRead)
	case j.action == nodeCreate || j.action == nodeRead:
		s.failFleet(j.refusalError())
		s.driver.dropJob(j)
	case j.action == nodeDelete:
		s.leaving.endNode(j.node, missing)
		s.driver.freeJob(j)
	case j.action == nodeStatus && (missing || j.answer.otherUID):
		s.driver.freeJob(j) // its end is on the way
	default:
		s.driver.dropJob(j)
	}
}

// settleSuccess does what follows an answer of 200 or 201.
func (s *nodes) settleSuccess(j *job) {
	n := j.node
	switch j.action {
	case nodeCreate, nodeRead:
		if j.action == nodeRead && j.answer.fleet != s.template.fleet {
			s.failFleet(fmt.Errorf("fleet: node %s: %w", n.name, ErrForeign))
		} else {
			s.takeOver(n, j.answer.uid)
		}
	case nodeStatus:
		s.driver.countLag(j)
	case nodeDelete:
		s.leaving.endNode(n, true)
	}
	s.driver.freeJob(j)
}

// addStats adds the nodes' part to a fleet's state.
func (s *nodes) addStats(out *Stats) {
	out.Nodes, out.Created, out.Schedulable, out.Lost = len(s.byName), s.created, s.schedulable, s.lost
}
