//go:build !linux

package planes

import (
	"github.com/spf13/cobra"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// Verbs returns hidden verbs that say that the planes need Linux.
func Verbs(Host) []*cobra.Command {
	var out []*cobra.Command
	for _, name := range names() {
		out = append(out, &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
			return kernel.Require(name)
		}})
	}
	return out
}
