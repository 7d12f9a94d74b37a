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
	TypeConfigMap  = "configmap"
	TypeSecret     = "secret"
	TypeToken      = "serviceaccounttoken"
)

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

// ParseResource reads NAMESPACE/TYPE/NAME, as it stands between hub and edge, or
// node/NODE/NAMESPACE/TYPE/NAME, as it stands within the cloud. The error is
// ErrMalformed.
func ParseResource(text string) (Resource, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 5 && parts[0] == "node" {
		parts = parts[2:]
	}
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Resource{}, fmt.Errorf("%w: resource %.80q", ErrMalformed, text)
	}
	return Resource{parts[0], parts[1], parts[2]}, nil
}

// Acked says whether an edge acknowledges an answer of the hub about this type;
// messages that are no answers it always acknowledges.
func (r Resource) Acked() bool { return r.Type == TypeConfigMap || r.Type == TypeSecret }
