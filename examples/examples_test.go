package examples_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/examples"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestAllAreThere holds that the program has each scenario of this folder: a new folder
// has to be named in the pattern of files.
func TestAllAreThere(t *testing.T) {
	got, err := examples.Names()
	repotest.NoError(t, err)
	var want []string
	err = filepath.WalkDir(".", func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "operator" { // a module of its own
			return fs.SkipDir
		}
		if err != nil || d.IsDir() || filepath.Ext(at) != ".yaml" {
			return err
		}
		raw, err := os.ReadFile(at)
		if strings.Contains("\n"+string(raw), "\nscenario: ") {
			want = append(want, strings.TrimSuffix(filepath.ToSlash(at), ".yaml"))
		}
		return err
	})
	if slices.Sort(want); err != nil || len(want) < 60 || !slices.Equal(got, want) {
		t.Errorf("%v\n got %v\nwant %v", err, got, want)
	}
	for _, name := range got {
		raw, err := examples.Read(name)
		disk, diskErr := os.ReadFile(name + ".yaml")
		if err := errors.Join(err, diskErr); err != nil || string(raw) != string(disk) {
			t.Errorf("%s is not the file (%v)", name, err)
		}
		if line := examples.Describe(raw); len(line) < 20 || len(line) > 130 {
			t.Errorf("%s: want a line that describes it, got %q", name, line)
		}
	}
}

func TestBeside(t *testing.T) {
	for name, want := range map[string][]string{
		"density": nil, "hundred-thousand-nodes": {"settings/scheduler-one-percent.yaml"},
		"clusters/density.yaml": {"settings/scheduler-one-percent.yaml"}, "vm/density": {"vm/parts/measures.yaml", "vm/parts/vm.yaml", "vm/parts/vmi.yaml", "vm/stages.yaml"},
		"app/render": {"app/parts/bodies.yaml", "app/parts/charts.yaml"},
	} {
		got, err := examples.Beside(name)
		if names := slices.Sorted(maps.Keys(got)); err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: %v, %v; want %v", name, names, err, want)
		}
		for at, raw := range got {
			if disk, err := os.ReadFile(filepath.FromSlash(at)); err != nil || string(raw) != string(disk) {
				t.Errorf("%s: %s is not the file (%v)", name, at, err)
			}
		}
	}
	all := repotest.Must(examples.Names())(t)
	for _, name := range all {
		if got, err := examples.Beside(name); err != nil || slices.ContainsFunc(slices.Collect(maps.Keys(got)), func(at string) bool { return !fs.ValidPath(at) || path.IsAbs(at) }) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestReadUnknown(t *testing.T) {
	for _, name := range []string{"", ".", "nothing", "settings/scheduler-one-percent", "operator/scale", "../README", "/etc/passwd", "vm"} {
		if raw, err := examples.Read(name); !errors.Is(err, examples.ErrUnknown) {
			t.Errorf("%q: %q, %v", name, raw, err)
		}
	}
}
