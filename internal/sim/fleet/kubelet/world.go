package kubelet

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
)

// ErrNotFound says that there is no such node or pod.
var ErrNotFound = errors.New("not found")

// World is where a server finds nodes and pods. The objects are not changed by
// the server. The errors wrap ErrNotFound where that is the reason.
type World interface {
	// Node returns a node of the fleet.
	Node(ctx context.Context, name string) (*corev1.Node, error)
	// PodsOn returns the pods that are bound to a node.
	PodsOn(ctx context.Context, node string) ([]*corev1.Pod, error)
	// Pod returns a pod, whole.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// What a World may be able to do besides.
type (
	// needed is told which fields metrics speak of, before Node and PodsOn are
	// asked for them; nil: they will not be asked.
	needed interface{ Need(words []string) }
	// lister knows the names of all nodes.
	lister interface{ Nodes() []string }
	// starter counts the containers that were ever started on a node.
	starter interface{ Started(node string) float64 }
	// podLister returns a node's pods as a JSON PodList.
	podLister interface {
		PodList(ctx context.Context, node string) ([]byte, error)
	}
)
