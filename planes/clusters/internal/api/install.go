package api

import (
	"context"
	"embed"

	"k8s.io/client-go/rest"

	"github.com/windtunnel/windtunnel/planes/internal/kit/install"
)

//go:embed crds/*.yaml
var definitions embed.FS

// manager is the field manager of what is installed.
const manager = "windtunnel-clusters"

// Install brings the definitions to the host, or to a member, and waits until they are served. It can
// be repeated, and by several processes at once.
func Install(ctx context.Context, config *rest.Config) error {
	_, err := install.DefineAll(ctx, config, definitions, manager)
	return err
}
