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
var definitions embed.FS

// manager is the field manager of what is installed.
const manager = "windtunnel-vm"

// Definitions returns the CustomResourceDefinitions of the kinds here. With
// statusSubresource instances have one, which KubeVirt's have not: there every
// phase move is a write of the whole object that passes the webhooks.
func Definitions(statusSubresource bool) ([]*unstructured.Unstructured, error) {
	files, err := definitions.ReadDir("crds")
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for _, f := range files {
		raw, err := definitions.ReadFile("crds/" + f.Name())
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			return nil, fmt.Errorf("definition %s: %w", f.Name(), err)
		}
		if statusSubresource && o.GetName() == ResourceInstances+"."+Group {
			addStatus(o)
		}
		out = append(out, o)
	}
	return out, nil
}

func addStatus(o *unstructured.Unstructured) {
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		v.(map[string]any)["subresources"] = map[string]any{"status": map[string]any{}}
	}
	_ = unstructured.SetNestedSlice(o.Object, versions, "spec", "versions") // they came from there
}

// Install brings the definitions to the server and waits until it serves them.
// It can be repeated, and by several processes at once.
func Install(ctx context.Context, config *rest.Config, statusSubresource bool) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("install definitions: %w", err)
	}
	all, err := Definitions(statusSubresource)
	if err != nil {
		return err
	}
	crds := c.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	for _, o := range all {
		if err := install.Apply(ctx, crds, o, manager); err != nil {
			return err
		}
	}
	return Served(ctx, config)
}

// Served waits until the server serves all kinds here: a list of each succeeds.
func Served(ctx context.Context, config *rest.Config) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("ask what is served: %w", err)
	}
	for _, name := range []string{ResourceInstances, ResourceMachines, ResourceMigrations, ResourceInstallation} {
		r := c.Resource(GroupVersion().WithResource(name))
		for {
			_, err := r.List(ctx, metav1.ListOptions{Limit: 1})
			if err == nil {
				break
			}
			if clock.Sleep(ctx, 100*time.Millisecond) != nil {
				return fmt.Errorf("wait until %s are served: %w", name, err)
			}
		}
	}
	return nil
}
