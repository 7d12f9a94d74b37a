package fleet

import (
	"encoding/hex"
	"hash/fnv"
	"math"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet/stage"
)

// pod is one pod on a node of the fleet. What it looks like is not kept: every
// event brings the whole object, and what a stage says of it is kept as a job.
type pod struct {
	node       *node
	key        [16]byte
	namespace  string // interned
	name       string
	ip         uint32
	running    bool
	generation uint32 // of the list that it was last seen in
	patched    uint64 // version that the last patch made
	job        *job   // waits for its time, or is with the server
	next       *job   // chosen while job was with the server
}

// podKey is a uid as bytes: they are UUIDs, and anything else is hashed.
func podKey(uid []byte) (key [16]byte) {
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

// onPod takes what the watch or a list says about a pod, at its receipt.
func (f *Fleet) onPod(kind object.EventType, o *object.Pod, received clock.Time) {
	n := f.nodeOf(o)
	if n == nil {
		return
	}
	key := podKey(o.UID)
	p := f.pods[key]
	if kind == object.Deleted {
		if p != nil {
			f.podGone(key, p)
		}
		return
	}
	if n.state == nodeGone || n.state == nodeLeaving {
		return // the plane's garbage collector takes them away
	}
	if p == nil {
		p = &pod{node: n, key: key, namespace: f.intern(o.Namespace), name: string(o.Name)}
		f.pods[key] = p
		if f.kubelets != nil {
			f.kubelets.Uses(n.name, p.namespace)
		}
	}
	p.generation = f.lists[sourcePods]
	if o.Version < p.patched {
		return // overtaken by our own patch, whose echo will come
	}
	if running := string(o.Phase) == "Running" && string(o.Ready) == "True"; running != p.running {
		p.running = running
		f.stats.running += delta(running)
	}
	f.playPod(p, o, received)
}

func delta(up bool) int {
	if up {
		return 1
	}
	return -1
}

// intern keeps one copy of each namespace.
func (f *Fleet) intern(b []byte) string {
	if s, ok := f.names[string(b)]; ok {
		return s
	}
	s := string(b)
	f.names[s] = s
	return s
}

// playPod asks the stages about a pod and keeps their answer as a job.
func (f *Fleet) playPod(p *pod, o *object.Pod, received clock.Time) {
	choice := f.stages.Pod(o, f.rng)
	if choice.None() {
		f.podWithdraw(p)
		return
	}
	j, due := f.podSlot(p, choice, received)
	env := f.env(due, p)
	effect := f.stages.RenderPod(j.body[:0], choice, o, env)
	j.choice, j.version, j.asked = choice, o.Version, due
	switch effect.Kind {
	case stage.Delete:
		j.action, j.body = podDelete, appendDelete(j.body[:0], string(o.UID))
	default:
		j.action, j.body = podStatus, effect.Body
	}
	if j == p.next || j.queued || j.withheld || j.Waiting() && j.attempt > 0 {
		return // it goes when the one before it is done, is about to go, or pauses before a retry
	}
	f.wheel.Stop(&j.Timer)
	f.place(j)
}

// place lets a job wait for its time, or go.
func (f *Fleet) place(j *job) {
	if fault := j.node.fault; fault.silent() {
		if !j.withheld {
			j.withheld = true
			fault.withheld = append(fault.withheld, j)
		}
		return
	}
	if j.asked > f.clock.Now() {
		f.wheel.Set(&j.Timer, j.asked)
		return
	}
	f.enqueue(j)
}

// podSlot returns the job that a choice goes into, and when it is due: the same
// stage stays due when it was, whatever else about the pod changed.
func (f *Fleet) podSlot(p *pod, choice stage.Choice, received clock.Time) (*job, clock.Time) {
	slot := &p.job
	if p.job != nil && p.job.sending {
		slot = &p.next
	}
	due := received.Add(choice.Delay + p.node.fault.slower())
	if *slot == nil {
		*slot = f.newJob(podStatus, p.node, p, due)
	} else if (*slot).choice == choice || (*slot).choice.Stage() == choice.Stage() {
		due = (*slot).asked
	}
	return *slot, due
}

// podWithdraw takes back what was chosen and not sent.
func (f *Fleet) podWithdraw(p *pod) {
	if p.next != nil {
		f.freeJob(p.next)
		p.next = nil
	}
	if p.job != nil && !p.job.sending {
		f.cancelJob(p.job)
		p.job = nil
	}
}

// cancelJob ends a job that is not with the server, wherever it waits.
func (f *Fleet) cancelJob(j *job) {
	j.pod = nil
	if j.queued || j.withheld {
		j.cancelled = true // dispatch, or the end of the disturbance, frees it
		return
	}
	f.freeJob(j)
}

// podGone forgets a pod that does not exist any more.
func (f *Fleet) podGone(key [16]byte, p *pod) {
	f.podWithdraw(p)
	if p.job != nil {
		p.job.cancelled, p.job.pod = true, nil
	}
	if p.ip != 0 {
		p.node.freeAddress(p.ip)
	}
	if p.running {
		f.stats.running--
	}
	f.stats.gone++
	delete(f.pods, key)
}

// podPlayed takes the answer to a pod's job.
func (f *Fleet) podPlayed(j *job) {
	if p := j.pod; p != nil {
		made := j.answer.version
		if j.action == podDelete {
			made = math.MaxUint64 // nothing follows
		} else if made > p.patched {
			p.patched = made
		}
		f.podIdle(p, made)
	}
	f.freeJob(j)
}

// podIdle lets the next job of a pod go, unless it was chosen for a version
// that made is newer than.
func (f *Fleet) podIdle(p *pod, made uint64) {
	j := p.next
	p.job, p.next = nil, nil
	switch {
	case j == nil:
	case j.version < made:
		f.freeJob(j)
	default:
		p.job = j
		f.place(j)
	}
}
