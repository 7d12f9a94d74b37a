//go:build !embedded

package component_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/plane/component"
)

func TestWithoutTheTagComponentsAreRefusedAndVerbsLetPass(t *testing.T) {
	for _, name := range component.Names() {
		if handled, code := component.Main(name, nil); !handled || code != 3 {
			t.Errorf("%s: handled %v, code %d", name, handled, code)
		}
	}
	for _, name := range []string{"", "run", "kube-proxy", "reaper"} {
		if handled, _ := component.Main(name, nil); handled {
			t.Errorf("%q was taken for a component", name)
		}
	}
	if component.Embedded() || len(component.Versions()) != 0 {
		t.Error("this build claims to hold the components")
	}
}
