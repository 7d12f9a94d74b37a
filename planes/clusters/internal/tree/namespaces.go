package tree

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespaces creates a member's namespaces, and knows which are there.
type namespaces struct {
	member *member

	mu    sync.Mutex
	known map[string]bool
}

// ensureNamespace creates a namespace, unless it is known to be there.
func (n *namespaces) ensureNamespace(ctx context.Context, name string) error {
	n.mu.Lock()
	known := n.known[name]
	n.mu.Unlock()
	if known {
		return nil
	}
	_, err := n.member.client.Namespaces.Get(ctx, "", name)
	if apierrors.IsNotFound(err) {
		_, err = n.member.client.Namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %s in member %s: %w", name, n.member.name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.known[name] = true
	return nil
}

// forgetNamespace lets a namespace be looked for again.
func (n *namespaces) forgetNamespace(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.known, name)
}
