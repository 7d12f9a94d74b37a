package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
	"github.com/windtunnel/windtunnel/planes/vm/internal/api"
	"github.com/windtunnel/windtunnel/planes/vm/internal/launcher"
)

// recheck is how often a node's heartbeat is looked at.
const recheck = time.Minute

// reconcileNode looks whether a node's agent is still there. When it is not,
// nothing more is placed on the node, and instances on it that have no living
// pod are given up, one after another.
func (c *Controller) reconcileNode(ctx context.Context, key string) error {
	node := slim.Get[*corev1.Node](c.nodes, key)
	if node == nil {
		return nil
	}
	beat, err := time.Parse(time.RFC3339Nano, node.Annotations[api.AnnotationHeartbeat])
	if err != nil {
		return nil // it has no agent
	}
	c.nodeLoop.Queue.AddAfter(key, recheck)
	if c.o.Now().Sub(beat) <= c.o.NodeTimeout {
		return nil
	}
	if node.Labels[api.LabelSchedulable] == "true" {
		c.o.Log.Warn("no heartbeat: the node is not schedulable any more", "node", node.Name, "last", beat)
		body := []byte(`{"metadata":{"labels":{"` + api.LabelSchedulable + `":"false"}}}`)
		if _, err := c.client.Core.Nodes().Patch(ctx, node.Name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return c.giveUp(ctx, node.Name)
}

// giveUp fails the instances of a node that have no living pod.
func (c *Controller) giveUp(ctx context.Context, node string) error {
	var failed error
	for _, vmi := range slim.ByIndex[*api.Instance](c.instances, byNode, node) {
		s := c.situationOf(vmi)
		if pod := s.currentPod(); !vmi.Status.Phase.OnNode() || pod != nil && !launcher.Down(pod) {
			continue
		}
		out := vmi.Copy()
		out.Status.Enter(api.Failed, s.now)
		out.Status.Reason = api.ReasonUnresponsive
		failed = errors.Join(failed, ignoreMissing(c.writeInstance(ctx, vmi, out)))
	}
	return failed
}
