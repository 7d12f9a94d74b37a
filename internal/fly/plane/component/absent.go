//go:build !embedded

package component

import (
	"fmt"
	"os"
	"slices"
)

// Embedded says whether this executable holds the components.
func Embedded() bool { return false }

// Versions returns the versions of kubernetes and etcd that are linked in.
func Versions() map[string]string { return nil }

// Main says that it cannot run a component; handled is false, and nothing was
// done, when name is no component.
func Main(name string, _ []string) (handled bool, code int) {
	if !slices.Contains(Names(), name) {
		return false, 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, ErrNotEmbedded)
	return true, 3
}
