package bodies_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/bodies"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestEachDialectOfTheLanguageIsKnown holds that what a scenario may name can be compiled.
func TestEachDialectOfTheLanguageIsKnown(t *testing.T) {
	for _, name := range append(scenario.Dialects(), "") {
		if d, err := bodies.Dialect(name); err != nil || d.Functions == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := bodies.Dialect("helm"); err == nil || err.Error() != `dialect "helm" is none of windtunnel, clusterloader2, kube-burner` {
		t.Error(err)
	}
}
