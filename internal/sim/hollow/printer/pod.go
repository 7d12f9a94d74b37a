package printer

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func podColumns() []column {
	return namedColumns(textColumn("Ready", func(o *corev1.Pod) string { p := summarizePod(o); return fmt.Sprintf("%d/%d", p.ready, p.total) }),
		textColumn("Status", func(o *corev1.Pod) string { return summarizePod(o).status }),
		column{name: "Restarts", cell: func(o runtime.Object, now time.Time) any {
			p := summarizePod(o.(*corev1.Pod))
			if p.restarts > 0 && !p.restarted.IsZero() {
				return fmt.Sprintf("%d (%s ago)", p.restarts, formatAge(p.restarted, now))
			}
			return strconv.Itoa(p.restarts)
		}}, ageColumn(),
		textColumn("IP", func(o *corev1.Pod) string {
			if len(o.Status.PodIPs) == 0 {
				return none
			}
			return orElse(o.Status.PodIPs[0].IP, none)
		}).whenWide(),
		textColumn("Node", func(o *corev1.Pod) string { return orElse(o.Spec.NodeName, none) }).whenWide(),
		textColumn("Nominated Node", func(o *corev1.Pod) string { return orElse(o.Status.NominatedNodeName, none) }).whenWide(),
		textColumn("Readiness Gates", gatesText).whenWide())
}

func gatesText(o *corev1.Pod) string {
	if len(o.Spec.ReadinessGates) == 0 {
		return none
	}
	open := 0
	for _, g := range o.Spec.ReadinessGates {
		if hasCondition(o, g.ConditionType) {
			open++
		}
	}
	return fmt.Sprintf("%d/%d", open, len(o.Spec.ReadinessGates))
}

func hasCondition(o *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(o.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}

// podSummary is what a pod's row says of its containers.
type podSummary struct {
	status       string
	ready, total int
	restarts     int
	restarted    metav1.Time // the last time
}

func (p *podSummary) addRestarts(s corev1.ContainerStatus) {
	p.restarts += int(s.RestartCount)
	if last := s.LastTerminationState.Terminated; last != nil && p.restarted.Before(&last.FinishedAt) {
		p.restarted = last.FinishedAt
	}
}

// summarizePod follows printPod of k8s.io/kubernetes, case by case.
func summarizePod(o *corev1.Pod) podSummary {
	p := podSummary{status: orElse(o.Status.Reason, string(o.Status.Phase)), total: len(o.Spec.Containers)}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			p.status = c.Reason
		}
	}
	sidecars, initializing := p.lookAtInit(o)
	if !initializing || hasCondition(o, corev1.PodInitialized) {
		p.restarts, p.restarted = sidecars.restarts, sidecars.restarted
		p.lookAtContainers(o)
	}
	ended := o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
	switch {
	case o.DeletionTimestamp == nil:
	case o.Status.Reason == "NodeLost":
		p.status = "Unknown"
	case !ended:
		p.status = "Terminating"
	}
	return p
}

// lookAtInit looks at init containers up to the first that has not ended, and returns
// the restarts of those that stay.
func (p *podSummary) lookAtInit(o *corev1.Pod) (sidecars podSummary, initializing bool) {
	stays := map[string]bool{}
	for _, c := range o.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			stays[c.Name] = true
			p.total++
		}
	}
	for i, s := range o.Status.InitContainerStatuses {
		p.addRestarts(s)
		if stays[s.Name] {
			sidecars.addRestarts(s)
		}
		switch ended, waits := s.State.Terminated, s.State.Waiting; {
		case ended != nil && ended.ExitCode == 0:
			continue
		case stays[s.Name] && s.Started != nil && *s.Started:
			if s.Ready {
				p.ready++
			}
			continue
		case ended != nil:
			p.status = "Init:" + terminationText(ended)
		case waits != nil && waits.Reason != "" && waits.Reason != "PodInitializing":
			p.status = "Init:" + waits.Reason
		default:
			p.status = fmt.Sprintf("Init:%d/%d", i, len(o.Spec.InitContainers))
		}
		return sidecars, true
	}
	return sidecars, false
}

func terminationText(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// lookAtContainers looks at the pod's containers, the last one first.
func (p *podSummary) lookAtContainers(o *corev1.Pod) {
	running, failed := false, ""
	for _, s := range slices.Backward(o.Status.ContainerStatuses) {
		p.addRestarts(s)
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			p.status = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			p.status = terminationText(s.State.Terminated)
			if s.State.Terminated.ExitCode != 0 {
				failed = p.status
			}
		case s.Ready && s.State.Running != nil:
			running = true
			p.ready++
		}
	}
	switch {
	case p.status != "Completed":
	case running && hasCondition(o, corev1.PodReady):
		p.status = "Running"
	case failed != "":
		p.status = failed
	case running:
		p.status = "NotReady"
	}
}
