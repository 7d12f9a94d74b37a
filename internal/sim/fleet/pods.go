package fleet

import (
	"encoding/hex"
	"hash/fnv"
	"maps"
	"net/http"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/watch"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/sim/engine"
	"github.com/windtunnel/windtunnel/internal/sim/stage/machine"
)

// pod is one pod on a node of the fleet. What it looks like is not kept: every
// event brings the whole object, and what a stage says of it is kept as a job.
type pod struct {
	engine.Object[job]
	node      *node
	key       podKey
	namespace string // interned
	name      string
	ip        uint32
	running   bool
	ready     heldReady
}

// podKey is a uid as bytes: they are UUIDs, and anything else is hashed.
type podKey [16]byte

func podKeyOf(uid []byte) (key podKey) {
	if len(uid) == 36 {
		var packed [32]byte
		n := 0
		for _, part := range [...][]byte{uid[0:8], uid[9:13], uid[14:18], uid[19:23], uid[24:36]} {
			n += copy(packed[n:], part)
		}
		if _, err := hex.Decode(key[:], packed[:]); err == nil {
			return key
		}
	}
	h := fnv.New128a()
	h.Write(uid)
	h.Sum(key[:0])
	return key
}

// pods are the pods on a fleet's nodes that are played here, and the owner of the
// calls for them. Its methods are called in the driver's turn.
type pods struct {
	driver   *driver
	nodes    *nodes
	stages   *stages
	kubelets *kubeletTraffic
	ready    *readiness
	byKey    map[podKey]*pod
	relist   watch.Relist[*pod]
	interned map[string]string // namespaces
	running  int
	deleted  int
}

// observePod takes what the watch or a list says about a pod, at its receipt.
func (s *pods) observePod(kind object.EventType, o *object.Pod, received clock.Time) {
	n := s.nodes.hostOfPod(o)
	if n == nil {
		return
	}
	key := podKeyOf(o.UID)
	p := s.byKey[key]
	if kind == object.Deleted {
		if p != nil {
			s.removePod(p)
		}
		return
	}
	if n.hasEnded() {
		return // the plane's garbage collector takes them away
	}
	if p == nil {
		p = &pod{node: n, key: key, namespace: s.internNamespace(o.Namespace), name: string(o.Name)}
		s.byKey[key] = p
		p.ready.meetPod(o, func() object.Value { return o.Open(s.ready.schema) })
		s.kubelets.useNamespace(n.name, p.namespace)
	}
	s.relist.Add(p)
	if p.Stale(o.Version) {
		return
	}
	switch running := string(o.Phase) == "Running" && string(o.Ready) == "True"; {
	case running && !p.running:
		s.running++
		p.running = true
	case !running && p.running:
		s.running--
		p.running = false
	}
	s.ready.observeCondition(&p.ready, n, o)
	s.playStage(p, o, received)
}

// internNamespace keeps one copy of each namespace.
func (s *pods) internNamespace(b []byte) string {
	if name, ok := s.interned[string(b)]; ok {
		return name
	}
	name := string(b)
	s.interned[name] = name
	return name
}

// playStage asks the stages about a pod and keeps their answer as a job. The same stage
// stays due when it was, whatever else about the pod changed.
func (s *pods) playStage(p *pod, o *object.Pod, received clock.Time) {
	e := s.driver
	choice := s.stages.Pod(o, e.rng)
	if choice.None() {
		e.calls.Withdraw(&p.Object)
		return
	}
	due := received.Add(choice.Delay + p.node.fault.extraDelay())
	j := p.Pending()
	switch {
	case j == nil:
		j = e.newJob(podStatus, p.node, p, due)
	case j.choice == choice || j.choice.Stage() == choice.Stage():
		due = j.Due
	}
	effect, err := s.stages.RenderPod(j.body[:0], choice, o, s.stages.stageEnv(due, p))
	if err != nil {
		e.warnUnmet(err.Error())
		if j != p.Pending() {
			e.calls.Free(&j.Call)
		}
		e.calls.Withdraw(&p.Object)
		return
	}
	j.choice, j.Version, j.Due = choice, o.Version, due
	goal := podStatus
	if effect.Kind == machine.Delete {
		goal, j.body = podDelete, appendDelete(j.body[:0], string(o.UID))
	} else {
		j.body = effect.Body
	}
	if j.chained == 0 || j.goal != goal { // else it goes on where its chain is
		j.action, j.chained = goal, 0
	}
	e.calls.Choose(&p.Object, &j.Call, e.clock.Now())
}

// removePod forgets a pod that does not exist any more.
func (s *pods) removePod(p *pod) {
	s.driver.calls.Forget(&p.Object)
	s.ready.forgetPod(&p.ready)
	if p.ip != 0 {
		p.node.freeAddress(p.ip)
	}
	if p.running {
		s.running--
	}
	s.deleted++
	delete(s.byKey, p.key)
}

// endList forgets the pods that a list did not hold.
func (s *pods) endList() {
	for _, p := range s.relist.End(maps.Values(s.byKey)) {
		s.removePod(p)
	}
}

func (s *pods) buildRequest(j *job) bool {
	r := &j.request
	if j.action == podEvent {
		r.Accept, r.ContentType = object.ContentType, jsonType
		r.Method, r.Path, r.Body = http.MethodPost, j.path, j.body
		return true
	}
	s.kubelets.leadChain(j)
	r.Accept, r.ContentType = object.ContentType, object.ContentType
	r.Path = "/api/v1/namespaces/" + j.pod.namespace + "/pods/" + j.pod.name
	r.Method, r.Body = http.MethodDelete, j.body
	switch j.action {
	case podStatus:
		r.Method, r.ContentType = http.MethodPatch, patchType
		r.Path += "/status"
	case podDelete:
	default:
		s.kubelets.buildCall(j)
	}
	return true
}

func (s *pods) settleAnswer(j *job) {
	switch {
	case j.chained > 0 && j.action != j.goal && !j.answer.Retriable():
		s.followChain(j)
	case j.succeeded() && j.action == podEvent:
		s.driver.freeJob(j)
	case j.succeeded():
		s.driver.countLag(j)
		s.kubelets.reportStarted(j)
		s.settleEffect(j)
	case j.Cancelled():
		s.driver.freeJob(j)
	case j.answer.Retriable():
		s.driver.retryJob(j)
	default:
		s.settleRefusal(j)
	}
}

// followChain goes on with a chain of a kubelet's calls, whatever became of the one
// before: only the last one counts for the object. It is due now.
func (s *pods) followChain(j *job) {
	if j.Cancelled() {
		s.driver.freeJob(j)
		return
	}
	j.Due, j.Attempt = j.answer.Done, 0
	j.turnToNext()
	s.driver.calls.Enqueue(&j.Call)
}

// settleRefusal does what follows an answer that another try would not change.
func (s *pods) settleRefusal(j *job) {
	missing, conflict := j.answer.Code == http.StatusNotFound, j.answer.Code == http.StatusConflict
	switch {
	case j.pod == nil:
		s.driver.freeJob(j) // an event
	case missing && (j.action == podDelete || j.action == podStatus):
		s.settleEffect(j) // somebody was faster, or its end is on the way
	case conflict || j.answer.otherUID:
		s.driver.retryJob(j) // a pod of another uid means that this one's end is on the way
	default:
		s.driver.dropJob(j)
	}
}

// settleEffect ends a pod's job whose effect is there.
func (s *pods) settleEffect(j *job) {
	j.pod.ready.noteOwnVersion(j.answer.version)
	if j.action == podDelete {
		s.driver.calls.DropNext(&j.pod.Object) // nothing that was chosen before follows
	}
	s.driver.finishJob(j, j.answer.version)
}

// addStats adds the pods' part to a fleet's state.
func (s *pods) addStats(out *Stats) {
	out.Pods, out.Running, out.Gone = len(s.byKey), s.running, s.deleted
}
