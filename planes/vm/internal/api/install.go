package api

import (
	"context"
	"embed"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
)

//go:embed crds/*.yaml
var definitions embed.FS

// manager is the field manager of what is installed.
const manager = "windtunnel-vm"

// Definitions returns the CustomResourceDefinitions of the kinds here. With
// statusSubresource instances have one, which KubeVirt's have not: there every
// phase move is a write of the whole object that passes the webhooks.
func Definitions(statusSubresource bool) ([]*unstructured.Unstructured, error) {
	all, err := install.Definitions(definitions)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if statusSubresource && o.GetName() == ResourceInstances+"."+Group {
			addStatus(o)
		}
	}
	return all, nil
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
	return install.Define(ctx, c, all, manager)
}

// Served waits until the server serves all kinds here: a list of each succeeds.
func Served(ctx context.Context, config *rest.Config) error {
	c, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("ask what is served: %w", err)
	}
	return install.Served(ctx, c, GroupVersion(), ResourceInstances, ResourceMachines, ResourceMigrations, ResourceInstallation)
}
