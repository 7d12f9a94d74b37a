package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// reconcileInstance brings one instance a step further.
func (c *Controller) reconcileInstance(ctx context.Context, key string) error {
	if !c.unseen.Begin(key) {
		return nil // it goes on when the caches show what this controller wrote
	}
	defer c.unseen.End(key)
	vmi := slim.Get[*api.Instance](c.instances, key)
	if vmi == nil {
		c.pods.Forget(key)
		c.unseen.Forget(key)
		return nil
	}
	if !c.pods.Satisfied(key) {
		return nil // the event of its pod comes
	}
	s := c.situationOf(vmi)
	var failed error
	for _, a := range s.actions() {
		err := c.doAction(ctx, key, s, a)
		if a.do == createPod || a.do == deletePod {
			s.failed = errors.Join(s.failed, err)
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// doAction does one thing about an instance.
func (c *Controller) doAction(ctx context.Context, key string, s situation, a action) error {
	switch a.do {
	case createPod:
		return c.createPod(ctx, key, launcher.Pod(s.vmi, c.o.Launcher), s.vmi)
	case deletePod:
		return c.deletePod(ctx, key, s.vmi, a.pod)
	case openGate:
		return c.openGate(ctx, a.pod, s.now)
	case labelPod:
		return c.labelPod(ctx, a.pod, s.vmi.Labels[api.LabelNode])
	default:
		return c.writeInstance(ctx, s.vmi, s.nextInstance())
	}
}

func (c *Controller) situationOf(vmi *api.Instance) situation {
	pods := slim.ByIndex[*corev1.Pod](c.launchers, byOwner, string(vmi.UID))
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.Namespace != vmi.Namespace })
	sortPods(pods)
	return situation{vmi: vmi, pods: pods, now: c.o.Now(), rules: c.o.Rules}
}

// deletePod deletes a launcher pod that key then expects to go.
func (c *Controller) deletePod(ctx context.Context, key string, vmi *api.Instance, pod *corev1.Pod) error {
	c.pods.Expect(key, "delete/"+string(pod.UID))
	err := c.client.Core.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err == nil {
		c.events.Eventf(vmi, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted virtual machine pod %s", pod.Name)
		return nil
	}
	c.pods.Seen(key, "delete/"+string(pod.UID))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("delete pod %s: %w", pod.Name, err)
}

// createPod creates a pod that key then expects to see.
func (c *Controller) createPod(ctx context.Context, key string, pod *corev1.Pod, vmi *api.Instance) error {
	token := "create/" + pod.Name
	c.pods.Expect(key, token)
	_, err := c.client.Core.Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	switch {
	case err == nil:
		c.events.Eventf(vmi, corev1.EventTypeNormal, "SuccessfulCreate", "Created virtual machine pod %s", pod.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		// An earlier self was killed before it saw the answer, or the cache is
		// behind: the watch brings the pod.
		c.pods.Seen(key, token)
		return nil
	}
	c.pods.Seen(key, token)
	return fmt.Errorf("create pod %s: %w", pod.Name, err)
}

// openGate opens the readiness gate that says the machine is not paused.
func (c *Controller) openGate(ctx context.Context, pod *corev1.Pod, at time.Time) error {
	now := metav1.NewTime(at)
	return c.patchPod(ctx, pod, types.StrategicMergePatchType, map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: api.ConditionUnpaused, Status: corev1.ConditionTrue, Reason: "NotPaused",
			Message: "the virtual machine is not paused", LastTransitionTime: now, LastProbeTime: now,
		}}},
	}, "status")
}

// labelPod names the node in a pod's labels.
func (c *Controller) labelPod(ctx context.Context, pod *corev1.Pod, node string) error {
	return c.patchPod(ctx, pod, types.MergePatchType, map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "labels": map[string]string{api.LabelNode: node},
	}})
}

// patchPod changes a pod; of one that changed meanwhile, or is gone, an event comes.
func (c *Controller) patchPod(ctx context.Context, pod *corev1.Pod, kind types.PatchType, change any, part ...string) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	now, err := c.client.Core.Pods(pod.Namespace).Patch(ctx, pod.Name, kind, body, metav1.PatchOptions{}, part...)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if key, ok := c.ownerKey(pod); ok && err == nil {
		c.unseen.Wrote(key, "Pod", pod.ResourceVersion, now)
	}
	return err
}
