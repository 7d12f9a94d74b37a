// Package api is what the clusters plane keeps at API servers: the Cluster of
// kosmos.io/v1alpha1, the names, labels and annotations of what a tree makes, and a
// client with the rate limits that a tree has.
//
// Names, labels and annotations are Kosmos', but for AnnotationHostUID.
package api

import (
	"bytes"
	"encoding/json"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The group and version of the kinds here, and their resources.
const (
	Group            = "kosmos.io"
	Version          = "v1alpha1"
	ResourceClusters = "clusters"
)

// Labels, annotations and finalizers.
const (
	LabelNode               = "kosmos.io/node"           // of a virtual node, and its taint
	LabelPod                = "kosmos-io/pod"            // of a member's pod, and so of the host's
	LabelGlobal             = "kosmos.io/global"         // of a member's copy of a host's object
	AnnotationOwners        = "kosmos-io/cluster-owners" // of a host's object: the members that have a copy, comma-separated
	AnnotationOwnedBy       = "kosmos-io/owned-by-cluster"
	AnnotationRole          = "kosmos.io/cluster-role"
	RoleRoot                = "root" // the cluster is the host itself
	FinalizerCluster        = "kosmos.io/cluster-manager"
	AnnotationHostUID       = "windtunnel.dev/host-uid" // of a member's pod: which host's pod it was made for; not Kosmos'
	NamePrefix              = "kosmos-"                 // of virtual nodes that stand for more than one node, and of tokens
	NameRootCA              = "kube-root-ca.crt"
	NameHostCA              = "master-root-ca.crt" // a member's copy of the host's NameRootCA
	NamespaceLeases         = corev1.NamespaceNodeLease
	maxName                 = 63
	KubeletPort       int32 = 10250
)

// TokenName returns the name of the Secret with the token of a service account.
func TokenName(account string) string { return NamePrefix + account + "-token" }

// Cluster is a member of the tree.
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              ClusterSpec     `json:"spec,omitempty"`
	Status            json.RawMessage `json:"status,omitempty"` // of others: Clusters have no status subresource
}

// ClusterSpec says how a member is reached and what it looks like on the host.
type ClusterSpec struct {
	Kubeconfig []byte       `json:"kubeconfig,omitempty"`
	Tree       *TreeOptions `json:"clusterTreeOptions,omitempty"`

	read []byte // the spec as it was read: written again, it loses no field that others know
}

// UnmarshalJSON reads the fields above, and keeps the others.
func (s *ClusterSpec) UnmarshalJSON(b []byte) error {
	type fields ClusterSpec
	s.read = bytes.Clone(b)
	return json.Unmarshal(b, (*fields)(s))
}

// MarshalJSON writes a spec as it was read, or a new one's fields.
func (s ClusterSpec) MarshalJSON() ([]byte, error) {
	if s.read != nil {
		return s.read, nil
	}
	type fields ClusterSpec
	return json.Marshal(fields(s))
}

// TreeOptions are the leaves of a member.
type TreeOptions struct {
	Enable     bool        `json:"enable"`
	LeafModels []LeafModel `json:"leafModels,omitempty"` // none: one leaf for all nodes
}

// LeafModel is one leaf: a virtual node of the host.
type LeafModel struct {
	LeafNodeName string            `json:"leafNodeName,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Taints       []corev1.Taint    `json:"taints,omitempty"`
	NodeSelector NodeSelector      `json:"nodeSelector,omitempty"`
}

// NodeSelector says which of the member's nodes a leaf stands for.
type NodeSelector struct {
	NodeName      string                `json:"nodeName,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// DeepCopyObject makes a Cluster a runtime.Object. What is in the spec is never
// changed, only replaced.
func (c *Cluster) DeepCopyObject() runtime.Object { return resource.CopyOf(c) }

// GroupVersion returns kosmos.io/v1alpha1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// newScheme knows the kinds here.
func newScheme() *runtime.Scheme {
	s, gv := runtime.NewScheme(), GroupVersion()
	resource.Register[Cluster](s, gv, "Cluster")
	resource.Register[ConvertPolicy](s, gv, "PodConvertPolicy", "ClusterPodConvertPolicy") // they are read alone
	return s
}

// The kinds of leaves.
const (
	LeafAll   = "all"   // one for all nodes of a member
	LeafParty = "party" // one for the nodes that a selector matches
	LeafNode  = "node"  // one for a node
)

// Mode returns LeafAll, LeafParty or LeafNode.
func (l *LeafModel) Mode() string {
	switch {
	case l.NodeSelector.NodeName != "":
		return LeafNode
	case l.NodeSelector.LabelSelector != nil:
		return LeafParty
	}
	return LeafAll
}

// Leaves returns the leaves of a member, in their order.
func (c *Cluster) Leaves() []LeafModel {
	if c.Spec.Tree == nil || len(c.Spec.Tree.LeafModels) == 0 {
		return []LeafModel{{}}
	}
	return c.Spec.Tree.LeafModels
}

// NodeName returns the name of the virtual node of the i-th leaf of a member.
func (l *LeafModel) NodeName(cluster string, i int) string {
	name := NamePrefix + cluster
	switch l.Mode() {
	case LeafNode:
		name = l.NodeSelector.NodeName
	case LeafParty:
		name = NamePrefix + l.LeafNodeName + "-" + strconv.Itoa(i)
	}
	return name[:min(len(name), maxName)]
}
