package processnode

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is one of a pod's, and what has become of it.
type container struct {
	spec     *corev1.Container
	state    corev1.ContainerState
	last     corev1.ContainerState
	id       string
	restarts int32
}

// statusOf is what a pod's status says of its container.
func (c *container) statusOf(init bool) corev1.ContainerStatus {
	running := c.state.Running != nil
	ended := c.state.Terminated != nil && c.state.Terminated.ExitCode == 0
	return corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, ImageID: c.spec.Image, ContainerID: c.id, State: c.state, LastTerminationState: c.last,
		RestartCount: c.restarts, Ready: running && !init || init && ended, Started: &running,
	}
}

// outcome is why a pod ended that its containers do not tell.
type outcome struct {
	phase           corev1.PodPhase // empty: it goes by its containers
	reason, message string
}

// statusOf is the status of a pod, from what has become of its containers. Conditions
// that have not changed keep their time.
func statusOf(before corev1.PodStatus, inits, mains []*container, o outcome, now metav1.Time) corev1.PodStatus {
	s := corev1.PodStatus{Phase: o.phase, Reason: o.reason, Message: o.message, HostIP: hostIP, StartTime: before.StartTime}
	if s.StartTime == nil {
		s.StartTime = &now
	}
	for _, c := range inits {
		s.InitContainerStatuses = append(s.InitContainerStatuses, c.statusOf(true))
	}
	for _, c := range mains {
		s.ContainerStatuses = append(s.ContainerStatuses, c.statusOf(false))
	}
	if s.Phase == "" {
		s.Phase = corev1.PodPending
		if slices.ContainsFunc(mains, func(c *container) bool { return c.state.Running != nil || c.state.Terminated != nil || c.restarts > 0 }) {
			s.Phase = corev1.PodRunning
		}
	}
	initialized := !slices.ContainsFunc(s.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready })
	ready := s.Phase == corev1.PodRunning && !slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready })
	for _, c := range []struct {
		of   corev1.PodConditionType
		true bool
	}{{corev1.PodInitialized, initialized}, {corev1.ContainersReady, ready}, {corev1.PodReady, ready}} {
		s.Conditions = append(s.Conditions, newCondition(before.Conditions, c.of, c.true, s.Phase, now))
	}
	return s
}

func newCondition(before []corev1.PodCondition, of corev1.PodConditionType, yes bool, phase corev1.PodPhase, now metav1.Time) corev1.PodCondition {
	c := corev1.PodCondition{Type: of, Status: corev1.ConditionFalse, LastTransitionTime: now}
	switch {
	case yes:
		c.Status = corev1.ConditionTrue
	case phase == corev1.PodSucceeded:
		c.Reason = "PodCompleted"
	case phase == corev1.PodFailed:
		c.Reason = "PodFailed"
	case of == corev1.PodInitialized:
		c.Reason = "ContainersNotInitialized"
	default:
		c.Reason = "ContainersNotReady"
	}
	i := slices.IndexFunc(before, func(b corev1.PodCondition) bool { return b.Type == of && b.Status == c.Status })
	if i >= 0 {
		c.LastTransitionTime = before[i].LastTransitionTime
	}
	return c
}
