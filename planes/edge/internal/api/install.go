package api

import (
	"context"
	"embed"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/subject/kit/install"
)

//go:embed crds/*.yaml
var definitions embed.FS

// manager is the field manager of what is installed.
const manager = "windtunnel-edge"

// Install brings definitions and namespace to the server and waits until they are
// served. It can be repeated, and by several processes at once.
func Install(ctx context.Context, config *rest.Config) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("install definitions: %w", err)
	}
	all, err := install.Definitions(definitions)
	if err != nil {
		return err
	}
	if err := install.Define(ctx, c, all, manager); err != nil {
		return err
	}
	namespaces := c.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace}}}
	install.Mark(o)
	if _, err := namespaces.Create(ctx, o, metav1.CreateOptions{FieldManager: manager}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install the namespace: %w", err)
	}
	return install.Served(ctx, c, GroupVersion(), ResourceSyncs, ResourceNodeSyncs)
}
