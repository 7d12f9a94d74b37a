package tree

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/internal/kit/slim"
)

// listNodes lists those of the member's nodes that options select.
func (c *nodeController) listNodes(ctx context.Context, o metav1.ListOptions) (*view, error) {
	var list corev1.NodeList
	if err := c.member.client.Nodes.List(ctx, "", &list, o); err != nil {
		return nil, fmt.Errorf("list nodes of member %s: %w", c.member.name, err)
	}
	nodes := make([]*memberNode, len(list.Items))
	for i := range list.Items {
		nodes[i] = keepMemberNode(&list.Items[i])
	}
	return newView(nodes), nil
}

// cachedNodes lets the server answer a list of all nodes from its cache.
func cachedNodes() metav1.ListOptions { return metav1.ListOptions{ResourceVersion: "0"} }

// listForLeaf is what a leaf is made of: as Kosmos lists it, for each leaf. Of a leaf that
// stands for one node, only what takes its resources is asked for its pods.
func (c *nodeController) listForLeaf(ctx context.Context, l *leaf, resources bool) (*view, error) {
	v, err := c.listNodes(ctx, l.nodesSelected())
	if err != nil {
		return nil, err
	}
	switch {
	case l.mode == api.LeafParty:
		return v, c.addListedPods(ctx, v, "")
	case l.mode == api.LeafAll:
		if v, err = c.listNodes(ctx, metav1.ListOptions{}); err != nil { // once for the leaf, once for what its pods take
			return nil, err
		}
	case !resources:
		return v, nil
	}
	for _, n := range v.nodes {
		if err := c.addListedPods(ctx, v, "spec.nodeName="+n.Name); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// addListedPods adds the member's pods that a field selector selects.
func (c *nodeController) addListedPods(ctx context.Context, v *view, fields string) error {
	var list corev1.PodList
	if err := c.member.client.Pods.List(ctx, "", &list, metav1.ListOptions{FieldSelector: fields}); err != nil {
		return fmt.Errorf("list pods of member %s: %w", c.member.name, err)
	}
	v.addPods(list.Items)
	return nil
}

// viewForAll is what all leaves of a pass are made of; nil where each looks for itself.
func (c *nodeController) viewForAll(ctx context.Context) (*view, error) {
	switch c.tree.o.LeafReads {
	case ReadsPerNode:
		return nil, nil
	case ReadsLive:
		v, err := c.listNodes(ctx, cachedNodes())
		if err != nil || c.member.leaves[0].mode == api.LeafNode {
			return v, err
		}
		return v, c.addListedPods(ctx, v, "")
	}
	v := newView(slim.All[*memberNode](c.member.nodes))
	if c.member.leaves[0].mode != api.LeafNode {
		for _, p := range slim.All[*memberPod](c.member.pods) {
			if len(p.requests) > 0 {
				v.taken[p.node] = append(v.taken[p.node], p.requests...)
			}
		}
	}
	return v, nil
}
