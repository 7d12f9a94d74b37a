package vmtest

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
)

// playPod does to a pod what a scheduler and a kubelet would, at once: it binds
// it, runs its containers, and makes it ready when its gate is open. It returns
// the pod as it then is; callers hold mu.
func (s *Server) playPod(o *object) *object {
	pod := &corev1.Pod{}
	raw, err := o.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, pod)
	}
	if err != nil || pod.DeletionTimestamp != nil {
		return o
	}
	switch {
	case pod.Spec.NodeName == "":
		pod.Spec.NodeName = s.place(pod)
		if pod.Spec.NodeName == "" {
			return o
		}
	case pod.Status.Phase == "":
		pod.Status.Phase = corev1.PodRunning
		for _, c := range pod.Spec.Containers {
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
	case pod.Status.Phase == corev1.PodRunning && has(pod, api.ConditionUnpaused) && !has(pod, corev1.PodReady):
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue})
	default:
		return o
	}
	if raw, err = json.Marshal(pod); err != nil {
		return o
	}
	next := &object{}
	if err := json.Unmarshal(raw, &next.Object); err != nil {
		return o
	}
	next.SetAPIVersion("v1")
	next.SetKind("Pod")
	return s.put("pods", next, o)
}

// place takes the next node that the pod's affinity allows.
func (s *Server) place(pod *corev1.Pod) string {
	var not []string
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
			for _, f := range t.MatchFields {
				not = append(not, f.Values...)
			}
		}
	}
	for range s.nodes {
		s.bound++
		if n := s.nodes[s.bound%len(s.nodes)]; !slices.Contains(not, n) {
			return n
		}
	}
	return ""
}

func has(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind && c.Status == corev1.ConditionTrue })
}
