package vm_test

import (
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windtunnel/windtunnel/internal/sim/apitest"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// cluster does to pods what a scheduler and kubelets would, at once: it binds
// them, runs their containers, and makes them ready when their gate is open.
type cluster struct {
	nodes []string
	bound atomic.Int64
}

// playPod takes the next step of a pod, if there is one.
func (c *cluster) playPod(_ string, o *apitest.Object) *apitest.Object {
	pod := &corev1.Pod{}
	if o.GetKind() != "Pod" || o.GetDeletionTimestamp() != nil || runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, pod) != nil {
		return nil
	}
	switch {
	case pod.Spec.NodeName == "":
		if pod.Spec.NodeName = c.place(pod); pod.Spec.NodeName == "" {
			return nil
		}
	case pod.Status.Phase == corev1.PodPending:
		pod.Status.Phase = corev1.PodRunning
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
	case pod.Status.Phase == corev1.PodRunning && has(pod, api.ConditionUnpaused) && !has(pod, corev1.PodReady):
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	default:
		return nil
	}
	next, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		panic(err)
	}
	return &apitest.Object{Object: next}
}

// place takes the next node that the pod's affinity allows.
func (c *cluster) place(pod *corev1.Pod) string {
	var not []string
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range t.MatchFields {
				not = append(not, f.Values...)
			}
		}
	}
	for range c.nodes {
		if n := c.nodes[c.bound.Add(1)%int64(len(c.nodes))]; !slices.Contains(not, n) {
			return n
		}
	}
	return ""
}

func has(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}
