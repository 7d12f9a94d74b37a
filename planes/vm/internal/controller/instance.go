package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// reconcileInstance brings one instance a step further.
func (c *Controller) reconcileInstance(ctx context.Context, key string) error {
	o, exists, err := c.instances.GetIndexer().GetByKey(key)
	if err != nil {
		return err
	}
	if !exists {
		c.pods.Forget(key)
		return nil
	}
	vmi := o.(*api.Instance)
	s, err := c.situationOf(vmi)
	if err != nil {
		return err
	}
	if c.pods.Satisfied(key) {
		s.failed = c.syncPods(ctx, key, s)
	}
	return errors.Join(s.failed, c.writeInstance(ctx, vmi, s.nextInstance()), c.openGate(ctx, s))
}

func (c *Controller) situationOf(vmi *api.Instance) (situation, error) {
	found, err := c.launchers.GetIndexer().ByIndex(byOwner, string(vmi.UID))
	if err != nil {
		return situation{}, err
	}
	s := situation{vmi: vmi, now: c.o.Now()}
	for _, o := range found {
		if pod := o.(*corev1.Pod); pod.Namespace == vmi.Namespace {
			s.pods = append(s.pods, pod)
		}
	}
	sortPods(s.pods)
	return s, nil
}

// syncPods creates the pod that is missing, or deletes those that are to go.
func (c *Controller) syncPods(ctx context.Context, key string, s situation) error {
	if s.needsPod() {
		return c.createPod(ctx, key, launcher.Pod(s.vmi, c.o.Launcher), s.vmi)
	}
	var failed error
	for _, pod := range s.podsToDelete() {
		c.pods.Expect(key, "delete/"+string(pod.UID))
		err := c.client.Core.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
		if err != nil {
			c.pods.Seen(key, "delete/"+string(pod.UID))
			if apierrors.IsNotFound(err) {
				continue
			}
			failed = errors.Join(failed, fmt.Errorf("delete pod %s: %w", pod.Name, err))
			continue
		}
		c.events.Eventf(s.vmi, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted virtual machine pod %s", pod.Name)
	}
	return failed
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
func (c *Controller) openGate(ctx context.Context, s situation) error {
	pod := s.podToUngate()
	if pod == nil {
		return nil
	}
	now := metav1.NewTime(s.now)
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status": map[string]any{"conditions": []corev1.PodCondition{{
			Type: api.ConditionUnpaused, Status: corev1.ConditionTrue, Reason: "NotPaused",
			Message: "the virtual machine is not paused", LastTransitionTime: now, LastProbeTime: now,
		}}},
	})
	if err != nil {
		return err
	}
	_, err = c.client.Core.Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, body, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the pod is gone; its event comes
	}
	return err
}
