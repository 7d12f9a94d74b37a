package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
)

type (
	claim  = corev1.PersistentVolumeClaim
	volume = corev1.PersistentVolume
)

// storageWorld is a claim's name on a hub and in a member with the volume of either, both
// without a server: what is decided is done to the objects, and the events of that go into
// queues.
type storageWorld struct {
	o                       Options
	copies                  copied[*claim]
	hubClaim, memberClaim   *claim
	hubVolume, memberVolume *volume
	released                map[types.UID]bool
	r                       *rand.Rand // nil: queues in a fixed order
	uids                    int
	stopped                 bool
	claim, volume           bool // queued for what comes up
	copyOfClaim, hubVolGone bool // queued for what follows the hub
	journal
}

func newStorageWorld(improved bool) *storageWorld {
	w := &storageWorld{o: Default(), released: map[types.UID]bool{}}
	if improved {
		w.o.StatusGuard, w.o.StatusPut, w.o.Dependents = GuardUID, Changed, DependentsCached
	}
	t := &tree{o: w.o, hub: newTestHub()}
	w.copies = t.claimCopies()
	return w
}

func (w *storageWorld) queue(what *bool) { *what = *what || !w.stopped }

// settle does what follows until nothing is queued; false where that does not end. Queues
// have workers of their own: which is first is drawn where there is something to draw with.
func (w *storageWorld) settle() bool {
	for range 30 {
		queued := slices.DeleteFunc([]job{
			{&w.copyOfClaim, w.followClaim}, {&w.hubVolGone, w.followVolume}, {&w.claim, w.claimUp}, {&w.volume, w.volumeUp},
		}, func(j job) bool { return !*j.queued })
		if len(queued) == 0 {
			return true
		}
		next := queued[0]
		if w.r != nil {
			next = queued[w.r.IntN(len(queued))]
		}
		*next.queued = false
		next.do()
	}
	return false
}

// job is a key in a queue, and what is done with it.
type job struct {
	queued *bool
	do     func()
}

// needed is what a pod does that needs the claim and is bound to the member.
func (w *storageWorld) needed() {
	addOwners(w.hubClaim, "m0")
	action := w.copies.decideNeeded(w.hubClaim, w.memberClaim, w.memberClaim != nil)
	w.say("%s", action)
	if action == copyCreate {
		w.uids++
		w.memberClaim = w.copies.newCopy(w.hubClaim, "default", "c")
		w.memberClaim.UID = types.UID(fmt.Sprint("m", w.uids))
		w.queue(&w.claim)
	}
}

func (w *storageWorld) followClaim() {
	found := w.hubClaim != nil
	if w.memberClaim == nil || found && w.copies.alwaysWritten {
		return
	}
	action := w.copies.decideChanged(w.hubClaim, found, w.memberClaim)
	w.say("%s", action)
	if action == copyDelete {
		if !isGlobal(w.memberClaim) || found && isCopyOf(w.memberClaim, w.hubClaim.UID) {
			w.never("a claim is deleted in the member that is no copy, or the copy of what the hub has")
		}
		w.claimGone()
	}
}

// claimGone lets the member's claim be gone.
func (w *storageWorld) claimGone() {
	if isGlobal(w.memberClaim) && !w.stopped {
		w.released[w.memberClaim.UID] = true
		if w.memberVolume != nil && w.memberVolume.Spec.ClaimRef.UID == w.memberClaim.UID {
			w.queue(&w.volume)
		}
	}
	w.memberClaim = nil
}

func (w *storageWorld) followVolume() {
	if w.hubVolume == nil && w.memberVolume != nil {
		w.say("delete the volume in the member, as on the hub")
		w.memberVolume = nil
		w.queue(&w.volume)
	}
}

func (w *storageWorld) claimUp() {
	if !isBoundCopy(w.memberClaim) || w.hubClaim == nil {
		return
	}
	action := decideClaim(w.hubClaim, w.memberClaim, w.memberVolume, &w.o)
	w.say("%s", action)
	if action == claimKeep {
		return
	}
	if w.hubVolume == nil {
		w.hubVolume = hubVolume("m0", w.memberVolume, w.hubClaim, true)
	}
	if action != claimBind {
		return
	}
	if w.o.StatusGuard == GuardUID && !isCopyOf(w.memberClaim, w.hubClaim.UID) {
		w.never("a claim gets the volume of another")
	}
	if w.o.StatusPut == Changed && w.hubClaim.Spec.VolumeName == w.memberClaim.Spec.VolumeName && claimSum(w.hubClaim) == claimSum(w.memberClaim) {
		w.never("a claim is written that does not differ")
	}
	next := w.hubClaim.DeepCopy()
	next.Spec.VolumeName, next.Status = w.memberClaim.Spec.VolumeName, w.memberClaim.Status
	w.hubClaim = next
}

func (w *storageWorld) volumeUp() {
	p := volumePair{member: w.memberVolume, owned: isOwner(w.hubVolume, "m0")}
	if p.member != nil {
		p.claim, p.released = w.memberClaim, w.released[p.member.Spec.ClaimRef.UID]
	}
	action := p.decideVolume()
	w.say("%s", action)
	switch action {
	case volumeClaimUp:
		w.claimUp()
	case volumeDelete:
		if w.memberClaim != nil && w.memberClaim.UID == w.memberVolume.Spec.ClaimRef.UID {
			w.never("the volume of a claim is deleted")
		}
		w.memberVolume = nil
		w.queue(&w.volume)
	case volumeDeleteOnHub:
		w.hubVolume = nil
	}
}

// act plays an event: SIDE VERB WHAT.
func (w *storageWorld) act(event string, args map[string]string) {
	switch event {
	case "hub create claim":
		w.hubClaim = &claim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: types.UID(args["uid"])}}
	case "hub delete claim":
		if len(ownersOf(w.hubClaim)) > 0 {
			w.queue(&w.copyOfClaim)
		}
		w.hubClaim = nil
	case "hub delete volume":
		w.hubVolume = nil
		w.queue(&w.hubVolGone)
	case "member create pod":
		w.needed()
	case "member create claim": // its own
		w.memberClaim = &claim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "own"}}
	case "member bind claim":
		w.bind()
	case "member delete claim":
		w.claimGone()
	case "member delete volume":
		w.memberVolume = nil
		w.queue(&w.volume)
	case "manager stop":
		w.stopped = true
	case "manager restart":
		w.restart()
	}
}

// bind is what a provisioner of the member does.
func (w *storageWorld) bind() {
	c := w.memberClaim.DeepCopy()
	c.Spec.VolumeName, c.Status.Phase = "pv-"+string(c.UID), corev1.ClaimBound
	w.memberClaim = c
	w.memberVolume = &volume{ObjectMeta: metav1.ObjectMeta{Name: c.Spec.VolumeName}}
	w.memberVolume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	w.memberVolume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "c", UID: c.UID}
	w.queue(&w.volume)
	if isGlobal(c) {
		w.queue(&w.claim)
	}
}

// restart is what caches tell when they are filled, and the sweep of those that compare.
func (w *storageWorld) restart() {
	w.stopped, w.released = false, map[types.UID]bool{}
	if w.memberClaim != nil && isGlobal(w.memberClaim) {
		w.claim = true
	}
	w.volume = w.volume || w.memberVolume != nil
	if w.hubVolume != nil && w.memberVolume == nil { // as volumeChanged
		w.volume = true
	}
	if w.o.Dependents != DependentsCached {
		return
	}
	w.volume = w.volume || isOwner(w.hubVolume, "m0")
	w.copyOfClaim = w.memberClaim != nil && isGlobal(w.memberClaim) && (w.hubClaim == nil || !isCopyOf(w.memberClaim, w.hubClaim.UID))
}

// String says what both sides have.
func (w *storageWorld) String() string {
	return fmt.Sprintf("hub: %s, %s | member: %s, %s", claimText(w.hubClaim), volumeText(w.hubVolume), claimText(w.memberClaim), volumeText(w.memberVolume))
}

func claimText(c *claim) string {
	if c == nil {
		return "no claim"
	}
	out := "claim " + string(c.UID)
	if of := c.Annotations[api.AnnotationHostUID]; of != "" {
		out += " of " + of
	}
	if c.Spec.VolumeName != "" {
		out += " bound to " + c.Spec.VolumeName
	}
	return out
}

func volumeText(v *volume) string {
	if v == nil {
		return "no volume"
	}
	return "volume " + v.Name
}

// TestStorage plays what becomes of a claim and its volume on both sides.
func TestStorage(t *testing.T) {
	var w *storageWorld
	repotest.Trace(t, "testdata/storage.trace", func(t *testing.T, s repotest.Step) string {
		if preset, ok := s.Args["preset"]; ok {
			w = newStorageWorld(preset == "improved")
			return ""
		}
		return play(t, s, w, func() { w.act(strings.Join(append([]string{s.Name}, s.Words...), " "), s.Args) })
	})
}

// drawStorage draws what both sides have.
func drawStorage(r *rand.Rand) *storageWorld {
	w := newStorageWorld(r.IntN(2) == 0)
	uids := []string{"a", "b"}
	if r.IntN(3) > 0 {
		w.act("hub create claim", map[string]string{"uid": uids[r.IntN(2)]})
		if r.IntN(2) == 0 {
			addOwners(w.hubClaim, "m0")
		}
	}
	switch r.IntN(4) {
	case 0:
		w.act("member create claim", nil)
	case 1, 2:
		of := &claim{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uids[r.IntN(2)])}}
		w.memberClaim = w.copies.newCopy(of, "default", "c")
		w.memberClaim.UID = "m0"
	}
	if w.memberClaim != nil && r.IntN(3) > 0 {
		w.bind()
		if w.hubClaim != nil && r.IntN(2) == 0 && isGlobal(w.memberClaim) {
			w.hubVolume = hubVolume("m0", w.memberVolume, w.hubClaim, true)
		}
		if r.IntN(4) == 0 {
			w.memberVolume = nil
		}
	}
	return w
}

// playStorage lets something happen that can, and returns what.
func playStorage(r *rand.Rand, w *storageWorld) string {
	events := []string{"manager restart"}
	add := func(can bool, event string) {
		if can {
			events = append(events, event)
		}
	}
	add(w.hubClaim == nil, "hub create claim")
	add(w.hubClaim != nil, "hub delete claim")
	add(w.hubClaim != nil, "member create pod")
	add(w.hubVolume != nil, "hub delete volume")
	add(w.memberClaim == nil, "member create claim")
	add(w.memberClaim != nil, "member delete claim")
	add(w.memberClaim != nil && w.memberClaim.Spec.VolumeName == "" && w.memberVolume == nil, "member bind claim")
	add(w.memberVolume != nil, "member delete volume")
	event := events[r.IntN(len(events))]
	w.act(event, map[string]string{"uid": []string{"c", "d"}[r.IntN(2)]})
	return event
}

// TestStorageConverges holds, from any state of both sides and whatever happens then, that
// the manager comes to rest, never does what it must not, and that with all that is better
// both sides agree when it rests.
func TestStorageConverges(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 0))
		w := drawStorage(r)
		w.r = r
		l := tale{seed, []string{w.String()}}
		w.restart()
		for range 8 {
			l.rest(t, w, w.checkAgreement)
			l.story = append(l.story, playStorage(r, w))
		}
	}
}

func (w *storageWorld) checkAgreement() {
	hub, member := w.hubClaim, w.memberClaim
	if w.hubVolume != nil && w.memberVolume == nil {
		w.never("the hub has a volume that its member lost")
	}
	if w.o.Dependents != DependentsCached {
		return
	}
	if isBoundCopy(member) && hub != nil && isCopyOf(member, hub.UID) && w.memberVolume != nil && hub.Spec.VolumeName == "" {
		w.never("a claim is bound in the member and not on the hub")
	}
	if hub != nil && hub.Spec.VolumeName != "" && member != nil && isGlobal(member) && !isCopyOf(member, hub.UID) {
		w.never("the copy of another claim stays")
	}
}
