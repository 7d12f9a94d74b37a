package steps

import (
	"errors"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestUpgradesAreCheckedBeforeAnythingStarts(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	s, err := scenario.Parse("f", []byte("scenario: x\nplane: {release: v1.36.3}\nsteps:\n- {name: up, upgrade: {to: v1.37.1}}\n- {name: down, upgrade: {to: v1.36.3, etcd: v3.6.12}}\n"), nil)
	repotest.NoError(t, err)
	w := repotest.Must(Compile(s, "f.yaml", object.Stamp{}))(t)
	err = CheckUpgrades(w)
	if !errors.Is(err, release.ErrAbsent) {
		t.Errorf("without executables: %v", err)
	}
	for _, want := range []string{
		`f.yaml:4: step "up": no control plane to start: Kubernetes v1.37.1 is neither`, "windtunnel plane build v1.37.1",
		`f.yaml:5: step "down": `, "windtunnel plane build v1.36.3 --etcd v3.6.12",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if err := w.CheckFaults(); err == nil || !strings.Contains(err.Error(), `f.yaml:4: step "up": upgrade: windtunnel cannot upgrade a cluster that it did not start`) {
		t.Errorf("of a cluster of others: %v", err)
	}
}
