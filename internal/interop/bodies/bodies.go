// Package bodies knows the dialects that a scenario's bodies may be written in:
// windtunnel's own, and those of other tools, which their rooms define.
package bodies

import (
	"fmt"
	"strings"

	clusterloader2 "github.com/windtunnel/windtunnel/internal/interop/clusterloader2/dialect"
	kubeburner "github.com/windtunnel/windtunnel/internal/interop/kubeburner/dialect"
	"github.com/windtunnel/windtunnel/internal/template"
	"github.com/windtunnel/windtunnel/scenario"
)

// The dialects of other tools, as values of a scenario's bodies.NAME.dialect.
const (
	ClusterLoader2 = clusterloader2.Name
	KubeBurner     = kubeburner.Name
)

// Dialect returns a dialect by its name in a scenario; empty is windtunnel's own.
func Dialect(name string) (template.Dialect, error) {
	switch name {
	case "", scenario.Dialects()[0]:
		return template.Windtunnel(), nil
	case ClusterLoader2:
		return clusterloader2.New(), nil
	case KubeBurner:
		return kubeburner.New(), nil
	}
	return template.Dialect{}, fmt.Errorf("dialect %q is none of %s", name, strings.Join(scenario.Dialects(), ", "))
}
