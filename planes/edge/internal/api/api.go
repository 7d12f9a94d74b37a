// Package api is what the edge plane keeps at the API server: the kinds of
// reliablesyncs.kubeedge.io/v1alpha1, in which a hub writes down what each edge has
// acknowledged, and a client for them and for what edges have.
//
// Names, labels and annotations are KubeEdge's.
package api

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/windtunnel/windtunnel/planes/internal/kit/resource"
)

// The group and version of the kinds here.
const (
	Group   = "reliablesyncs.kubeedge.io"
	Version = "v1alpha1"
)

// Namespace holds the plane's own objects.
const Namespace = "kubeedge"

// Secrets of the plane, with their keys.
const (
	SecretAuthority   = "casecret"
	KeyAuthority      = "cadata"
	KeyAuthorityKey   = "cakeydata"
	SecretToken       = "tokensecret"
	KeyToken          = "tokendata"
	ConfigMapHubs     = "edge-hubs" // not KubeEdge's: a key for each hub, where fleets find it
	LabelEdge         = "node-role.kubernetes.io/edge"
	AnnotationHub     = "cloudcore" // of a node: the address of the hub that it hangs at
	ResourceSyncs     = "objectsyncs"
	ResourceNodeSyncs = "clusterobjectsyncs"
)

// Sync is an ObjectSync, or for a node, which has no namespace, a
// ClusterObjectSync: the version of an object that an edge has acknowledged.
type Sync struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              SyncSpec   `json:"spec,omitempty"`
	Status            SyncStatus `json:"status,omitempty"`
}

// SyncSpec names the object.
type SyncSpec struct {
	APIVersion string `json:"objectAPIVersion,omitempty"`
	Kind       string `json:"objectKind,omitempty"`
	Name       string `json:"objectName,omitempty"`
}

// SyncStatus is what the edge has.
type SyncStatus struct {
	ResourceVersion string `json:"objectResourceVersion,omitempty"`
}

// SyncName returns the name of the Sync of a node and an object's UID.
func SyncName(node, uid string) string { return node + "." + uid }

// Parts returns the node and the UID that a Sync's name consists of.
func (s *Sync) Parts() (node, uid string) {
	i := strings.LastIndexByte(s.Name, '.')
	if i < 0 {
		return "", ""
	}
	return s.Name[:i], s.Name[i+1:]
}

// DeepCopyObject makes a Sync a runtime.Object.
func (s *Sync) DeepCopyObject() runtime.Object { return resource.CopyOf(s) }

// GroupVersion returns reliablesyncs.kubeedge.io/v1alpha1.
func GroupVersion() schema.GroupVersion { return schema.GroupVersion{Group: Group, Version: Version} }

// newScheme knows the kinds here.
func newScheme() *runtime.Scheme {
	s, gv := runtime.NewScheme(), GroupVersion()
	resource.Register[Sync](s, gv, "ObjectSync", "ClusterObjectSync")
	addDevices(s)
	return s
}

// Hub says where fleets find a hub; it is the text of its key in ConfigMapHubs.
type Hub struct {
	Address   string `json:"address"`
	Websocket int    `json:"websocket"`      // port
	Enrolment int    `json:"enrolment"`      // port
	QUIC      int    `json:"quic,omitempty"` // port; 0: it takes none
}
