package builtin_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/builtin"
)

const own = `
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: own}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector: {}
  steps: [{delete: true}]
`

func TestSets(t *testing.T) {
	base := t.TempDir()
	repotest.NoError(t, os.WriteFile(filepath.Join(base, "own.yaml"), []byte(own), 0o600))
	f := repotest.Must(builtin.Sets([]string{"fast", "own.yaml", "volumes"}, base))(t)
	var names []string
	for _, s := range f.Stages {
		names = append(names, s.Name)
	}
	all := strings.Join(names, " ")
	if !strings.Contains(all, "pod-ready") || !strings.Contains(all, "own") || len(f.Others) == 0 {
		t.Errorf("stages %s, %d others", all, len(f.Others))
	}
	for _, bad := range []string{"../own.yaml", "nosuch", "/etc/passwd"} {
		if _, err := builtin.Sets([]string{bad}, base); err == nil || !strings.Contains(err.Error(), "built-in sets are chaos, deployments, fast, general, volumes") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := builtin.Sets(nil, base); err == nil {
		t.Error("no stages, no error")
	}
}

// TestFromFlags holds that files named on a command line may lie anywhere.
func TestFromFlags(t *testing.T) {
	here := t.TempDir()
	work := filepath.Join(here, "work")
	repotest.NoError(t, os.Mkdir(work, 0o700))
	t.Chdir(work)
	for _, file := range []string{filepath.Join(here, "own.yaml"), "own.yaml"} {
		repotest.NoError(t, os.WriteFile(file, []byte(own), 0o600))
	}
	for _, name := range []string{"own.yaml", "../own.yaml", filepath.Join(here, "own.yaml")} {
		names, base := builtin.FromFlags([]string{"fast", name})
		if f, err := builtin.Sets(names, base); err != nil || f.Stages[len(f.Stages)-1].Name != "own" {
			t.Errorf("%s: %v", name, err)
		}
	}
	names, base := builtin.FromFlags([]string{"nosuch.yaml"})
	if _, err := builtin.Sets(names, base); err == nil || !strings.Contains(err.Error(), "nosuch.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestBindClasses: the stages that bind claims on their own class bind those on others.
func TestBindClasses(t *testing.T) {
	f := repotest.Must(builtin.Sets([]string{"fast", builtin.Volumes}, "."))(t)
	builtin.BindClasses(f, []string{"a", "b"})
	about := 0
	for _, s := range f.Stages {
		if s.Spec.Selector == nil {
			continue
		}
		for _, m := range s.Spec.Selector.MatchExpressions {
			if m.JQ != nil && m.JQ.Key == ".spec.storageClassName" {
				if about++; !slices.Equal(m.JQ.Values, []string{builtin.VolumesClass, "a", "b"}) {
					t.Errorf("%s is about %v", s.Name, m.JQ.Values)
				}
			}
		}
	}
	if about != 4 {
		t.Errorf("%d stages are about classes", about)
	}
}
