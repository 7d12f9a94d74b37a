package api

import (
	"context"
	"embed"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/subject/kit/install"
)

//go:embed crds/*.yaml
var schemas embed.FS

// manager is the field manager of what is installed.
const manager = "windtunnel-app"

// CustomResources returns the CustomResourceDefinitions of the kinds here. They
// are far shorter than KubeVela's, and keep what they do not name.
func CustomResources() ([]*unstructured.Unstructured, error) {
	files, err := schemas.ReadDir("crds")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, f := range files {
		raw, err := schemas.ReadFile("crds/" + f.Name())
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return nil, fmt.Errorf("custom resource %s: %w", f.Name(), err)
		}
		out = append(out, o)
	}
	return out, nil
}

// Install brings the kinds to the server and waits until it serves them, then the
// system namespace with definitions. It can be repeated, and by several processes
// at once.
func Install(ctx context.Context, config *rest.Config, definitions []*Definition) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	crds, err := CustomResources()
	if err != nil {
		return err
	}
	for _, o := range crds {
		if err := install.Apply(ctx, c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}), o, manager); err != nil {
			return err
		}
	}
	if err := served(ctx, c); err != nil {
		return err
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": SystemNamespace}}}
	if err := install.Apply(ctx, c.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}), ns, manager); err != nil {
		return err
	}
	for _, d := range definitions {
		raw, err := yaml.Marshal(d)
		if err != nil {
			return fmt.Errorf("install %s %s: %w", d.Kind, d.Name, err)
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return fmt.Errorf("install %s %s: %w", d.Kind, d.Name, err)
		}
		unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
		if err := install.Apply(ctx, c.Resource(GroupVersion().WithResource(Resource(d.Kind))).Namespace(d.Namespace), o, manager); err != nil {
			return err
		}
	}
	return nil
}

// served waits until the server serves all kinds here: a list of each succeeds.
func served(ctx context.Context, c dynamic.Interface) error {
	for _, kind := range append(DefinitionKinds(), KindApplication, KindRevision, KindTracker) {
		r := c.Resource(GroupVersion().WithResource(Resource(kind)))
		for {
			_, err := r.List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				break
			}
			if clock.Sleep(ctx, 100*time.Millisecond) != nil {
				return fmt.Errorf("wait until %s are served: %w", Resource(kind), err)
			}
		}
	}
	return nil
}
