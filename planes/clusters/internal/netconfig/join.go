package netconfig

import (
	"context"
	"fmt"
	"net/netip"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
)

// Join makes the Clusters and ClusterNodes of a link, with what Kosmos' controllers in the
// clusters know of them: neither the nodes' addresses, which agents tell, nor who is a
// gateway, which is elected. Those that are there already are left as they are.
func Join(ctx context.Context, config *rest.Config, clusters []link.Cluster, nodes []link.Node) error {
	c, err := newClient(config)
	if err != nil {
		return err
	}
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("client for %s: %w", config.Host, err)
	}
	if err := install.Namespace(ctx, d, Namespace, manager); err != nil {
		return err
	}
	for _, one := range clusters {
		o := &cluster{ObjectMeta: metav1.ObjectMeta{Name: one.Name}}
		o.Spec.Link = &linkOptions{Enable: true, NetworkType: one.Type, IPFamily: one.Family, GlobalCIDRs: map[string]string{},
			LocalCIDRs: vipCIDR{rangeText(one.Local), rangeText(one.Local6)}, BridgeCIDRs: vipCIDR{rangeText(one.Bridge), rangeText(one.Bridge6)}}
		for from, to := range one.Global {
			o.Spec.Link.GlobalCIDRs[from.String()] = to.String()
		}
		for _, p := range one.PodCIDRs {
			o.Status.Link.PodCIDRs = append(o.Status.Link.PodCIDRs, p.String())
		}
		for _, p := range one.ServiceCIDRs {
			o.Status.Link.ServiceCIDRs = append(o.Status.Link.ServiceCIDRs, p.String())
		}
		if _, err := c.clusters.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cluster %s: %w", one.Name, err)
		}
	}
	for _, one := range nodes {
		o := &ClusterNode{ObjectMeta: metav1.ObjectMeta{Name: one.Name, Labels: map[string]string{labelCluster: one.Cluster}},
			Spec: ClusterNodeSpec{ClusterName: one.Cluster, NodeName: one.Name, InterfaceName: one.Device}}
		for _, p := range one.PodCIDRs {
			o.Spec.PodCIDRs = append(o.Spec.PodCIDRs, p.String())
		}
		if _, err := c.nodes.Create(ctx, o); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("node %s: %w", one.Name, err)
		}
	}
	return nil
}

// rangeText is a range as objects have it; empty: there is none.
func rangeText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

// NodeInformer returns an informer over all ClusterNodes.
func NodeInformer(config *rest.Config) (cache.SharedIndexInformer, error) {
	c, err := newClient(config)
	if err != nil {
		return nil, err
	}
	return c.nodes.Informer("", 0, cache.Indexers{}), nil
}

// IsGateway says that a node has the role.
func (n *ClusterNode) IsGateway() bool { return nodeOf(n).Gateway }
