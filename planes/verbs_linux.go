package planes

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/planes/app"
	"github.com/windtunnel/windtunnel/planes/clusters"
	"github.com/windtunnel/windtunnel/planes/edge"
	"github.com/windtunnel/windtunnel/planes/vm"
)

// Verbs returns the processes of all planes, as hidden verbs of their host.
func Verbs(host Host) []*cobra.Command {
	return slices.Concat(app.Verbs(host), vm.Verbs(host), edge.Verbs(host), clusters.Verbs(host))
}
