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
	return named(text("Ready", func(o *corev1.Pod) string { p := summarize(o); return fmt.Sprintf("%d/%d", p.ready, p.total) }),
		text("Status", func(o *corev1.Pod) string { return summarize(o).status }),
		column{name: "Restarts", cell: func(o runtime.Object, now time.Time) any {
			p := summarize(o.(*corev1.Pod))
			if p.restarts > 0 && !p.restarted.IsZero() {
				return fmt.Sprintf("%d (%s ago)", p.restarts, age(p.restarted, now))
			}
			return strconv.Itoa(p.restarts)
		}}, ageColumn(),
		text("IP", func(o *corev1.Pod) string {
			if len(o.Status.PodIPs) == 0 {
				return none
			}
			return or(o.Status.PodIPs[0].IP, none)
		}).whenWide(),
		text("Node", func(o *corev1.Pod) string { return or(o.Spec.NodeName, none) }).whenWide(),
		text("Nominated Node", func(o *corev1.Pod) string { return or(o.Status.NominatedNodeName, none) }).whenWide(),
		text("Readiness Gates", gates).whenWide())
}

func gates(o *corev1.Pod) string {
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

func (p *podSummary) restart(s corev1.ContainerStatus) {
	p.restarts += int(s.RestartCount)
	if last := s.LastTerminationState.Terminated; last != nil && p.restarted.Before(&last.FinishedAt) {
		p.restarted = last.FinishedAt
	}
}

// summarize follows printPod of k8s.io/kubernetes, case by case.
func summarize(o *corev1.Pod) podSummary {
	p := podSummary{status: or(o.Status.Reason, string(o.Status.Phase)), total: len(o.Spec.Containers)}
	for _, c := range o.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonSchedulingGated {
			p.status = c.Reason
		}
	}
	sidecars, initializing := p.initialize(o)
	if !initializing || hasCondition(o, corev1.PodInitialized) {
		p.restarts, p.restarted = sidecars.restarts, sidecars.restarted
		p.run(o)
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

// initialize looks at init containers up to the first that has not ended, and returns
// the restarts of those that stay.
func (p *podSummary) initialize(o *corev1.Pod) (sidecars podSummary, initializing bool) {
	stays := map[string]bool{}
	for _, c := range o.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			stays[c.Name] = true
			p.total++
		}
	}
	for i, s := range o.Status.InitContainerStatuses {
		p.restart(s)
		if stays[s.Name] {
			sidecars.restart(s)
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
			p.status = "Init:" + ending(ended)
		case waits != nil && waits.Reason != "" && waits.Reason != "PodInitializing":
			p.status = "Init:" + waits.Reason
		default:
			p.status = fmt.Sprintf("Init:%d/%d", i, len(o.Spec.InitContainers))
		}
		return sidecars, true
	}
	return sidecars, false
}

func ending(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// run looks at the pod's containers, the last one first.
func (p *podSummary) run(o *corev1.Pod) {
	running, failed := false, ""
	for _, s := range slices.Backward(o.Status.ContainerStatuses) {
		p.restart(s)
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			p.status = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			p.status = ending(s.State.Terminated)
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
