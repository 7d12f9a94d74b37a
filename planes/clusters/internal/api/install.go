package api

import (
	"context"
	"embed"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/internal/subject/kit/install"
)

//go:embed crds/*.yaml
var definitions embed.FS

// manager is the field manager of what is installed.
const manager = "windtunnel-clusters"

// Install brings the definitions to the host, or to a member, and waits until they are served. It can
// be repeated, and by several processes at once.
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
	if err := install.Served(ctx, c, servicesVersion(), ResourceExports, ResourceImports); err != nil {
		return err
	}
	return install.Served(ctx, c, GroupVersion(), ResourceClusters)
}
