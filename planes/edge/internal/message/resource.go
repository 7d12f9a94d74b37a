package message

import (
	"fmt"
	"strings"
)

// Types of resources, the third part of a resource's name.
const (
	TypeNode       = "node"
	TypeNodePatch  = "nodepatch"
	TypeNodeStatus = "nodestatus" // of edges as old as v1.11
	TypeLease      = "lease"
	TypePod        = "pod"
	TypePodPatch   = "podpatch"
	TypePodStatus  = "podstatus" // likewise of v1.11
	TypePodList    = "podlist"   // likewise
	TypeConfigMap  = "configmap"
	TypeSecret     = "secret"
	TypeToken      = "serviceaccounttoken"
	TypeDevice     = "device"
	TypeModel      = "devicemodel"
	TypeTwin       = "twin" // what a device reports: device/NAMESPACE/NAME/twin/edge_updated
)

// Membership is the whole resource of a message that tells an edge which devices are its
// own. It is not acknowledged.
const Membership = "membership"

// Twin is the whole resource of a message that acknowledges a device's report.
const Twin = "twin"

// Namespaces that are words and not namespaces.
const (
	NamespaceDown   = "null"    // of a Node that goes to an edge
	NamespaceUp     = "default" // of a Node that comes from one
	NamespaceLeases = "kube-node-lease"
)

// Resource names what a message is about.
type Resource struct{ Namespace, Type, Name string }

// String returns NAMESPACE/TYPE/NAME.
func (r Resource) String() string { return r.Namespace + "/" + r.Type + "/" + r.Name }

// The words about a device's reports.
const (
	deviceWord  = "device"
	twinWord    = "twin"
	updatedWord = "edge_updated"
)

// TwinResource is the resource of a device's report.
func TwinResource(namespace, name string) string {
	return strings.Join([]string{deviceWord, namespace, name, twinWord, updatedWord}, "/")
}

// ParseResource reads NAMESPACE/TYPE/NAME, as it stands between hub and edge, or
// node/NODE/NAMESPACE/TYPE/NAME, as it stands within the cloud, or what TwinResource
// returns. The error is ErrMalformed.
func ParseResource(text string) (Resource, error) {
	parts := strings.Split(text, "/")
	switch {
	case len(parts) == 5 && parts[0] == "node":
		parts = parts[2:]
	case len(parts) == 5 && parts[0] == deviceWord && parts[3] == twinWord && parts[4] == updatedWord:
		parts = []string{parts[1], TypeTwin, parts[2]}
	}
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Resource{}, fmt.Errorf("%w: resource %.80q", ErrMalformed, text)
	}
	return Resource{parts[0], parts[1], parts[2]}, nil
}

// Acked says whether an edge acknowledges an answer of the hub about this type;
// messages that are no answers it always acknowledges.
func (r Resource) Acked() bool { return r.Type == TypeConfigMap || r.Type == TypeSecret }
