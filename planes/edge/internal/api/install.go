package api

import (
	"context"
	"embed"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/clock"
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
	crds := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, plural := range []string{ResourceSyncs, ResourceNodeSyncs} {
		raw, err := definitions.ReadFile("crds/" + plural + ".yaml")
		o := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(raw, &o.Object)
		}
		if err == nil {
			_, err = crds.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: manager, Force: true})
		}
		if err != nil {
			return fmt.Errorf("install %s: %w", plural, err)
		}
	}
	namespaces := c.Resource(corev1.SchemeGroupVersion.WithResource("namespaces"))
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace}}}
	if _, err := namespaces.Create(ctx, o, metav1.CreateOptions{FieldManager: manager}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("install the namespace: %w", err)
	}
	return served(ctx, c)
}

func served(ctx context.Context, c dynamic.Interface) error {
	for _, plural := range []string{ResourceSyncs, ResourceNodeSyncs} {
		for {
			if _, err := c.Resource(GroupVersion().WithResource(plural)).List(ctx, metav1.ListOptions{Limit: 1}); err == nil {
				break
			}
			if err := clock.Sleep(ctx, 100*time.Millisecond); err != nil {
				return fmt.Errorf("wait until %s are served: %w", plural, err)
			}
		}
	}
	return nil
}
