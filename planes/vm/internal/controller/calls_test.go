package controller

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// life is an instance, its pod, and what the controller wrote of them.
type life struct {
	vmi   *api.Instance
	pod   *corev1.Pod
	rules Rules
	out   strings.Builder
	calls int
}

// TestCalls plays the life of one instance under each preset.
func TestCalls(t *testing.T) {
	repotest.Trace(t, "testdata/calls.trace", func(_ *testing.T, s repotest.Step) string {
		o := Default()
		set := o.Words()
		set.Reset()
		set.Apply(s.Args["preset"])
		l := &life{vmi: instance("Pending"), rules: o.Rules}
		settle := l.settle
		if s.Args["late"] == "true" {
			settle = func(string) {}
		}
		l.settle("created")
		l.pod.Spec.NodeName = "node"
		settle("pod is bound")
		l.pod.Status.Phase = corev1.PodRunning
		l.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: api.ContainerCompute, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		l.settle("containers run")
		l.pod.Status.Conditions = append(l.pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
		settle("pod is ready")
		l.vmi.Status.Enter(api.Running, at(20))
		l.settle("agent says that the machine runs")
		fmt.Fprintf(&l.out, "%d writes\n", l.calls)
		l.calls = 0
		l.vmi.DeletionTimestamp = &metav1.Time{Time: at(30)}
		l.settle("instance is deleted")
		l.pod = nil
		l.settle("pod has gone")
		l.vmi.Status.Enter(api.Succeeded, at(40))
		l.settle("agent says that the machine has ended")
		fmt.Fprintf(&l.out, "%d writes\n", l.calls)
		return l.out.String()
	})
}

// settle lets the controller do what follows, each time from what a cache would hold.
func (l *life) settle(what string) {
	fmt.Fprintf(&l.out, "%s\n", what)
	for range 10 {
		s := situation{vmi: l.vmi, now: at(10), rules: l.rules}
		if l.pod != nil {
			s.pods = []*corev1.Pod{l.pod}
		}
		before := l.calls
		for _, a := range s.actions() {
			l.apply(s, a)
		}
		if l.calls == before {
			return
		}
	}
	l.out.WriteString("  and so on without an end\n")
}

func (l *life) apply(s situation, a action) {
	switch a.do {
	case createPod:
		l.pod = launcher.Pod(l.vmi, launcher.Options{NoGate: l.rules.Gate == GateNone})
		l.pod.UID, l.pod.Status = "pod", corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBurstable}
		l.note("POST pods")
		l.note("POST events")
	case deletePod:
		l.pod = l.pod.DeepCopy()
		l.pod.DeletionTimestamp = &metav1.Time{Time: at(30)}
		l.note("DELETE pods")
		l.note("POST events")
	case openGate:
		l.pod.Status.Conditions = append(l.pod.Status.Conditions, corev1.PodCondition{Type: api.ConditionUnpaused, Status: corev1.ConditionTrue})
		l.note("PATCH pods/status gate")
	case labelPod:
		l.pod.Labels = withText(l.pod.Labels, api.LabelNode, l.vmi.Labels[api.LabelNode])
		l.note("PATCH pods label")
	default:
		next := s.nextInstance()
		if isSame(l.vmi, next) {
			return
		}
		verb := "PATCH"
		if ownsInstance(l.vmi) {
			verb = "UPDATE"
		}
		l.note(verb + " virtualmachineinstances " + strings.Join(changesOf(l.vmi, next), ", "))
		l.vmi = next
	}
}

func (l *life) note(call string) {
	l.calls++
	fmt.Fprintf(&l.out, "  %s\n", call)
}

// changesOf names what differs between two states of an instance.
func changesOf(old, now *api.Instance) (out []string) {
	if !reflect.DeepEqual(old.Annotations, now.Annotations) {
		out = append(out, "annotations")
	}
	for _, c := range now.Status.Conditions {
		if was := api.Find(old.Status.Conditions, c.Type); was == nil || !reflect.DeepEqual(*was, c) {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)))
		}
	}
	if old.Status.QOSClass != now.Status.QOSClass {
		out = append(out, "qosClass")
	}
	if old.Status.Phase != now.Status.Phase {
		out = append(out, string(now.Status.Phase))
	}
	if len(old.Status.ActivePods) != len(now.Status.ActivePods) {
		out = append(out, "activePods")
	}
	if !slices.Equal(old.Finalizers, now.Finalizers) {
		out = append(out, "finalizers")
	}
	return out
}
