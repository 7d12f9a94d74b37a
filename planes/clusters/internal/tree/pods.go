package tree

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podPair is what is known of a pod on both sides, by its name. What follows from it is
// decided here, without a clock, a server or a cache.
type podPair struct {
	hub      *hubPod    // nil: the hub has none of the name
	member   *memberPod // nil: the member has none
	leaf     *leaf      // of the member, that the hub's pod is bound to; nil: it is bound elsewhere
	finished *string    // uid of the hub's pod whose member's pod is gone, until the hub knows; nil: there is none
}

// podAction is what is to be done for a pod.
type podAction string

const (
	podNothing      podAction = "nothing"
	podCreate       podAction = "create in the member"
	podDelete       podAction = "delete in the member"
	podDeleteOrphan podAction = "ask the hub, and delete in the member"
	podDeleteOnHub  podAction = "delete on the hub"
	podWriteStatus  podAction = "write the status on the hub"
	podKeepStatus   podAction = "leave the status on the hub"
	podRequeueDown  podAction = "requeue down"
)

// decideDown decides after a change on the hub, or after one that makes room for its pod.
func (p podPair) decideDown(o *Options) podAction {
	uids := o.StatusGuard == GuardUID
	switch {
	case p.hub == nil:
		return p.deleteCopy()
	case p.hub.DeletionTimestamp != nil: // first in the member, then, when it is gone there, on the hub
		switch {
		case p.member == nil || uids && !p.member.own: // somebody else's of that name says nothing of it
			return podDeleteOnHub
		case !uids && p.member.own: // again at each event, also while a finalizer holds it
			return podDelete
		}
		return p.deleteCopy()
	case p.member != nil:
		if uids && !p.member.isOf(p.hub.UID) {
			return p.deleteCopy() // its end brings the new one down
		}
		return podNothing
	case p.hub.phase == corev1.PodSucceeded || p.hub.phase == corev1.PodFailed:
		return podNothing
	case uids && p.finished != nil && *p.finished == string(p.hub.UID):
		return podNothing // its end is on its way up, and would be undone
	}
	return podCreate
}

// decideUp decides after a change in the member.
func (p podPair) decideUp(o *Options) podAction {
	uids := o.StatusGuard == GuardUID
	switch {
	case p.hasFinished(o):
		return p.upFinished(uids)
	case p.member == nil:
		return podNothing
	case p.hub == nil:
		if uids { // Kosmos deletes when it sees the hub's deletion, and never afterwards
			return podDeleteOrphan
		}
		return podNothing
	case p.leaf == nil:
		return podNothing // it runs elsewhere: a pod of this name was here before
	case !p.member.own:
		return podNothing // it is somebody else's by now, and its status is not kept
	case uids && !p.member.isOf(p.hub.UID):
		return podRequeueDown
	case o.StatusPut == Always || p.hub.sum != p.member.sum:
		return podWriteStatus
	case p.hub.DeletionTimestamp != nil && p.deleteCopy() == podDelete:
		return podDelete // it was asked for on the hub while nobody watched
	}
	return podKeepStatus
}

// hasFinished tells whether the tree's pod in the member is gone, which the hub does not
// know yet. Somebody else may have its name by then.
func (p podPair) hasFinished(o *Options) bool {
	return p.finished != nil && (p.member == nil || o.StatusGuard == GuardUID && !p.member.own)
}

// upFinished decides when the member's pod is gone. With Kosmos' semantics the pod of that
// name goes, also when it is a later one.
func (p podPair) upFinished(uids bool) podAction {
	switch {
	case p.hub == nil || p.leaf == nil:
		return podNothing
	case uids && p.finishedOther():
		return podRequeueDown
	}
	return podDeleteOnHub
}

// deleteCopy deletes the member's pod if it is the tree's and not being deleted yet.
func (p podPair) deleteCopy() podAction {
	if p.member == nil || !p.member.own || p.member.DeletionTimestamp != nil {
		return podNothing
	}
	return podDelete
}

// finishedOther tells whether the member's pod that is gone was made for another pod of
// the name than the hub has now.
func (p podPair) finishedOther() bool { return *p.finished != string(p.hub.UID) }

// isOf tells whether a member's pod was made for the very pod of the hub.
func (p *memberPod) isOf(hub types.UID) bool { return p.hubUID == string(hub) }

// podQueues are the queues that a pod goes into after an event.
type podQueues struct{ down, up bool }

// afterHub is for a pod of the hub that was made, has changed or is gone. A status that
// somebody else has changed is written again.
func afterHub(hub *hubPod, member *memberPod) podQueues {
	return podQueues{down: true, up: member != nil && member.own && hub.sum != member.sum}
}

// afterMember is for a pod of the member that was made, where old is nil, or has changed.
func afterMember(old, now *memberPod) podQueues {
	return podQueues{up: now.own && (old == nil || old.UID != now.UID || old.sum != now.sum)}
}

// afterMemberGone is for a pod of the member that is there no more. One that was not the
// tree's had the name that a pod of the hub may wait for; bound tells whether one does.
func afterMemberGone(was *memberPod, bound bool, o *Options) podQueues {
	return podQueues{up: was.own, down: !was.own && bound && o.StatusGuard == GuardUID}
}
