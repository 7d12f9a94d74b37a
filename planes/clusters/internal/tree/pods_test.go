package tree

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// podWorld is a pod's name on a hub and in a member, both without a server: what is
// decided is done to two objects, and the events of that go into queues.
type podWorld struct {
	o         Options
	hub       *hubPod
	member    *memberPod
	finished  *string
	elsewhere bool // the hub's pod is bound to a node that is no leaf of the member
	uids      int  // of members' pods
	stopped   bool
	queued    podQueues
	r         *rand.Rand // nil: down first
	journal
}

func newPodWorld(guard, put string) *podWorld {
	w := &podWorld{o: Default()}
	w.o.StatusGuard, w.o.StatusPut = guard, put
	return w
}

func (w *podWorld) pair() podPair {
	p := podPair{hub: w.hub, member: w.member, finished: w.finished}
	if !w.elsewhere {
		p.leaf = &leaf{}
	}
	return p
}

func (w *podWorld) enqueue(q podQueues) {
	if w.stopped {
		return
	}
	w.queued.down, w.queued.up = w.queued.down || q.down, w.queued.up || q.up
}

// hubChanged is an event of the hub's pod, which the queue of another member gets if it
// is bound elsewhere.
func (w *podWorld) hubChanged(p *hubPod) {
	if !w.elsewhere {
		w.enqueue(afterHub(p, w.member))
	}
}

func (w *podWorld) setMember(p *memberPod) {
	old := w.member
	w.member = p
	w.enqueue(afterMember(old, p))
}

func (w *podWorld) removeMember() {
	was := w.member
	w.member = nil
	if was.own && !w.stopped {
		w.finished = &was.hubUID
	}
	w.enqueue(afterMemberGone(was, w.hub != nil && !w.elsewhere, &w.o))
}

func (w *podWorld) removeHub() {
	was := w.hub
	w.hub = nil
	w.hubChanged(was)
}

// settle does what follows until nothing is queued, as the manager does; false where that
// does not end. Both queues have workers of their own: which is first is drawn where there
// is something to draw with.
func (w *podWorld) settle() bool {
	for range 20 {
		q := w.queued
		switch {
		case q.down && (w.r == nil || !q.up || w.r.IntN(2) == 0):
			w.queued.down = false
			w.do("down", w.pair().decideDown(&w.o))
		case q.up:
			w.queued.up = false
			p := w.pair()
			w.do("up", p.decideUp(&w.o))
			if p.hasFinished(&w.o) {
				w.finished = nil
			}
		default:
			return true
		}
	}
	return false
}

func (w *podWorld) do(queue string, action podAction) {
	if action == podNothing {
		return
	}
	w.say("%s: %s", queue, action)
	switch action {
	case podCreate:
		w.checkCreate()
		w.uids++
		w.setMember(&memberPod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("m", w.uids))}, own: true, hubUID: string(w.hub.UID), sum: "pending"})
	case podDelete:
		w.deleteMember()
	case podDeleteOrphan:
		if w.hub == nil && w.pair().deleteCopy() == podDelete {
			w.deleteMember()
		}
	case podDeleteOnHub:
		w.checkDeleteOnHub()
		w.removeHub()
	case podWriteStatus:
		w.writeStatus()
	case podRequeueDown:
		w.queued.down = true
	}
}

func (w *podWorld) deleteMember() {
	if !w.member.own {
		w.never("somebody else's pod is deleted in the member")
	}
	if w.member.DeletionTimestamp != nil && w.o.StatusGuard == GuardUID {
		w.never("a pod that is being deleted is deleted again")
	}
	next := *w.member
	next.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	w.setMember(&next)
}

func (w *podWorld) checkCreate() {
	if w.member != nil || w.hub.DeletionTimestamp != nil || w.elsewhere || w.hub.phase == corev1.PodSucceeded {
		w.never("a pod is created that is not to run")
	}
	if w.o.StatusGuard == GuardUID && w.finished != nil && *w.finished == string(w.hub.UID) {
		w.never("a pod that has ended is created again")
	}
}

func (w *podWorld) checkDeleteOnHub() {
	ended := w.finished != nil && *w.finished == string(w.hub.UID)
	if w.o.StatusGuard == GuardUID && w.hub.DeletionTimestamp == nil && !ended {
		w.never("a pod of the hub is deleted, and neither was that asked for nor has it ended")
	}
}

func (w *podWorld) writeStatus() {
	if w.o.StatusPut == Changed && w.hub.sum == w.member.sum {
		w.never("a status is written that does not differ")
	}
	if w.o.StatusGuard == GuardUID && !w.member.isOf(w.hub.UID) {
		w.never("the status of another pod is written")
	}
	next := *w.hub
	next.sum = w.member.sum
	w.hub = &next
	w.hubChanged(w.hub)
}

// act plays an event: SIDE VERB.
func (w *podWorld) act(side, verb string, args map[string]string) {
	switch side + " " + verb {
	case "hub create":
		w.elsewhere = args["node"] == "other"
		w.hub = &hubPod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(args["uid"])}, phase: corev1.PodPending, sum: "new"}
		w.hubChanged(w.hub)
	case "hub delete":
		next := *w.hub
		next.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		w.hub = &next
		w.hubChanged(w.hub)
	case "hub remove":
		w.removeHub()
	case "hub status":
		next := *w.hub
		next.sum, next.phase = args["is"], phaseOf(args["is"])
		w.hub = &next
		w.hubChanged(w.hub)
	case "member create": // by somebody else
		w.uids++
		w.setMember(&memberPod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("m", w.uids))}, sum: "other"})
	case "member replace": // its pod ends, and somebody else creates one
		w.act("member", "remove", nil)
		w.act("member", "create", nil)
	case "member restore": // it comes back with an older state, in which it has a pod of the tree
		w.uids++
		w.setMember(&memberPod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint("m", w.uids))}, own: true, hubUID: args["uid"], sum: "running"})
	case "member status":
		next := *w.member
		next.sum = args["is"]
		w.setMember(&next)
	case "member remove":
		w.removeMember()
	case "manager stop":
		w.stopped = true
	case "manager restart":
		w.restart()
	}
}

// restart is what caches tell when they are filled; what was remembered is lost.
func (w *podWorld) restart() {
	w.finished, w.stopped = nil, false
	if w.hub != nil {
		w.hubChanged(w.hub)
	}
	if w.member != nil {
		w.enqueue(afterMember(nil, w.member))
	}
}

func phaseOf(status string) corev1.PodPhase {
	if status == "succeeded" {
		return corev1.PodSucceeded
	}
	return corev1.PodRunning
}

// String says what both sides have.
func (w *podWorld) String() string {
	hub, member := "-", "-"
	if w.hub != nil {
		hub = fmt.Sprintf("%s %s", w.hub.UID, w.hub.sum) + deleting(&w.hub.ObjectMeta)
		if w.elsewhere {
			hub += ", elsewhere"
		}
	}
	if w.member != nil {
		member = fmt.Sprintf("%s of %s, %s", w.member.UID, w.member.hubUID, w.member.sum) + deleting(&w.member.ObjectMeta)
		if !w.member.own {
			member = fmt.Sprintf("%s, somebody else's", w.member.UID)
		}
	}
	return fmt.Sprintf("hub: %s | member: %s", hub, member)
}

func deleting(o *metav1.ObjectMeta) string {
	if o.DeletionTimestamp != nil {
		return ", being deleted"
	}
	return ""
}

// TestPods plays what becomes of a pod on both sides.
func TestPods(t *testing.T) {
	var w *podWorld
	repotest.Trace(t, "testdata/pods.trace", func(t *testing.T, s repotest.Step) string {
		if s.Name == "manager" && s.Words == nil {
			w = newPodWorld(s.Args["status-guard"], s.Args["status-put"])
			return ""
		}
		return play(t, s, w, func() { w.act(s.Name, s.Words[0], s.Args) })
	})
}

// drawPods draws the state of both sides.
func drawPods(r *rand.Rand, guard, put string) *podWorld {
	w := newPodWorld(guard, put)
	uids, sums := []string{"a", "b"}, []string{"new", "running", "succeeded"}
	pick := func(from []string) string { return from[r.IntN(len(from))] }
	maybe := func(o *metav1.ObjectMeta) {
		if r.IntN(3) == 0 {
			o.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}
	}
	if r.IntN(4) > 0 {
		w.hub = &hubPod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(pick(uids))}, sum: pick(sums)}
		w.hub.phase, w.elsewhere = phaseOf(w.hub.sum), r.IntN(5) == 0
		maybe(&w.hub.ObjectMeta)
	}
	if r.IntN(4) > 0 {
		w.member = &memberPod{ObjectMeta: metav1.ObjectMeta{UID: "m0"}, own: r.IntN(4) > 0, sum: pick(sums)}
		if w.member.own {
			w.member.hubUID = pick(uids)
		}
		maybe(&w.member.ObjectMeta)
	}
	if of := pick(uids); w.member == nil && r.IntN(3) == 0 {
		w.finished = &of
	}
	return w
}

// playPods lets something happen that can, and returns what.
func playPods(r *rand.Rand, w *podWorld) string {
	type event struct {
		side, verb string
		args       map[string]string
	}
	events := []event{{"manager", "restart", nil}}
	if w.hub == nil {
		uid := map[string]string{"uid": []string{"c", "d"}[r.IntN(2)]}
		events = append(events, event{"hub", "create", uid}, event{"hub", "create", uid})
	} else {
		events = append(events, event{"hub", "delete", nil}, event{"hub", "remove", nil}, event{"hub", "status", map[string]string{"is": "lost"}})
	}
	if w.member == nil {
		events = append(events, event{"member", "create", nil})
	} else {
		events = append(events, event{"member", "status", map[string]string{"is": []string{"running", "succeeded"}[r.IntN(2)]}}, event{"member", "remove", nil})
	}
	e := events[r.IntN(len(events))]
	w.act(e.side, e.verb, e.args)
	return strings.TrimSpace(fmt.Sprint(e.side, " ", e.verb, " ", e.args))
}

// TestPodsConverge holds, from any state of both sides and whatever happens then, that
// the manager comes to rest, never does what it must not, and that with all that is
// better (GuardUID) both sides agree when it rests.
func TestPodsConverge(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 0))
		guard, put := []string{GuardNone, GuardUID}[r.IntN(2)], []string{Always, Changed}[r.IntN(2)]
		w := drawPods(r, guard, put)
		w.r = r
		l := tale{seed, []string{fmt.Sprint(guard, " ", put), w.String()}}
		if w.finished == nil {
			w.restart()
		} else {
			w.enqueue(podQueues{down: w.hub != nil && !w.elsewhere, up: true})
		}
		for range 8 {
			l.rest(t, w, w.checkAgreement)
			for range 1 + r.IntN(2) { // also two before the manager hears of either
				l.story = append(l.story, playPods(r, w))
			}
		}
	}
}

// checkAgreement holds that both sides agree as far as they can while a pod of the member
// is being deleted or somebody else has its name.
func (w *podWorld) checkAgreement() {
	hub, member := w.hub, w.member
	live := member != nil && member.own && member.DeletionTimestamp == nil
	switch {
	case w.o.StatusGuard != GuardUID || w.elsewhere:
	case hub == nil && live:
		w.never("a pod of the tree is left in the member")
	case hub == nil || member != nil && !member.own:
	case hub.DeletionTimestamp != nil && (member == nil || live):
		w.never("a deletion does not come through")
	case hub.DeletionTimestamp == nil && member == nil && hub.phase == corev1.PodRunning:
		w.never("a pod is not created")
	case live && !member.isOf(hub.UID):
		w.never("the pod of another stays")
	case live && hub.sum != member.sum:
		w.never("a status does not come through")
	}
}
