// Package netconfig is Kosmos' network-manager: it watches which nodes clusters have
// (ClusterNode) and keeps at the API server what each of them is to be given
// (NodeConfig), as package link computes it.
package netconfig

import (
	"context"
	"embed"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/planes/clusters/internal/api"
	"github.com/windtunnel/windtunnel/planes/clusters/internal/link"
	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The resources, and what else stands at them.
const (
	resourceNodes   = "clusternodes"
	resourceConfigs = "nodeconfigs"
	roleGateway     = "gateway"
	labelCluster    = "kosmos.io/cluster" // of a ClusterNode
	annotationPrev  = "prev"              // of a NodeConfig: the whole spec before
	manager         = "windtunnel-link"
)

// cluster is what the link reads of a Cluster.
type cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Link *linkOptions `json:"clusterLinkOptions,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Link struct {
			PodCIDRs     []string `json:"podCIDRs,omitempty"`
			ServiceCIDRs []string `json:"serviceCIDRs,omitempty"`
		} `json:"clusterLinkStatus,omitempty"`
	} `json:"status,omitempty"`
}

type linkOptions struct {
	Enable      bool              `json:"enable,omitempty"`
	NetworkType string            `json:"networkType,omitempty"` // empty: p2p
	IPFamily    string            `json:"ipFamily,omitempty"`    // empty: all
	LocalCIDRs  vipCIDR           `json:"localCIDRs,omitempty"`
	BridgeCIDRs vipCIDR           `json:"bridgeCIDRs,omitempty"`
	GlobalCIDRs map[string]string `json:"globalCIDRsMap,omitempty"` // a range of the cluster -> what others know it by
}

type vipCIDR struct {
	IP  string `json:"ip,omitempty"`
	IP6 string `json:"ip6,omitempty"` // empty: no link of IPv6
}

// ClusterNode is a node of a cluster as others know it.
type ClusterNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterNodeSpec `json:"spec,omitempty"`
}

// ClusterNodeSpec says where a node is and what is behind it.
type ClusterNodeSpec struct {
	ClusterName   string   `json:"clusterName,omitempty"`
	NodeName      string   `json:"nodeName,omitempty"`
	PodCIDRs      []string `json:"podCIDRs,omitempty"`
	IP            string   `json:"ip,omitempty"`
	IP6           string   `json:"ip6,omitempty"`
	Roles         []string `json:"roles,omitempty"`
	InterfaceName string   `json:"interfaceName,omitempty"`
}

// NodeConfig is what a node is to have.
type NodeConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              link.Config `json:"spec,omitempty"`
}

// DeepCopyObject makes a cluster a runtime.Object. What is in the specs here is never
// changed, only replaced.
func (c *cluster) DeepCopyObject() runtime.Object { return resource.CopyOf(c) }

// DeepCopyObject makes a ClusterNode a runtime.Object.
func (n *ClusterNode) DeepCopyObject() runtime.Object { return resource.CopyOf(n) }

// DeepCopyObject makes a NodeConfig a runtime.Object.
func (n *NodeConfig) DeepCopyObject() runtime.Object { return resource.CopyOf(n) }

// client speaks to the host by one rate limiter.
type client struct {
	rest     rest.Interface
	clusters resource.Client[*cluster]
	nodes    resource.Client[*ClusterNode]
	configs  resource.Client[*NodeConfig]
}

func newClient(config *rest.Config) (*client, error) {
	s, gv := runtime.NewScheme(), api.GroupVersion()
	resource.Register[cluster](s, gv, "Cluster")
	resource.Register[ClusterNode](s, gv, "ClusterNode")
	resource.Register[NodeConfig](s, gv, "NodeConfig")
	r, err := resource.REST(config, gv, s)
	if err != nil {
		return nil, err
	}
	return &client{r, resource.New[*cluster](r, api.ResourceClusters),
		resource.New[*ClusterNode](r, resourceNodes),
		resource.New[*NodeConfig](r, resourceConfigs)}, nil
}

//go:embed crds/*.yaml
var definitions embed.FS

// Install brings the definitions to the host, the tree's among them, and waits until
// they are served.
func Install(ctx context.Context, config *rest.Config) error {
	if err := api.Install(ctx, config); err != nil {
		return err
	}
	_, err := install.DefineAll(ctx, config, definitions, manager)
	return err
}
