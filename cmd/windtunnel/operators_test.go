package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestRealControllers runs the examples with published controllers, where the cache of
// subjects has them: every object of the load goes through its lifecycle.
func TestRealControllers(t *testing.T) {
	if testing.Short() {
		t.Skip("boots a control plane")
	}
	files, err := filepath.Glob("../../examples/operators/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(raw), "\nscenario: ") {
			continue
		}
		t.Run(file, func(t *testing.T) {
			var fault strings.Builder
			if code := executeVerb(t.Context(), &environment{stdout: &strings.Builder{}, stderr: &fault}, []string{"run", file, "--plan"}); code != exitPass {
				if lacksProgram(fault.String()) {
					t.Skip(fault.String())
				}
				t.Fatal(fault.String())
			}
			s, err := scenario.Load(file, map[string]string{"workloads": "20"})
			if err != nil {
				t.Fatal(err)
			}
			out := filepath.Join(t.TempDir(), "run")
			said, err := exec.CommandContext(t.Context(), repotest.Binary(t), "run", file, "--set", "workloads=20", "--out", out).CombinedOutput()
			var exit *exec.ExitError
			if err != nil && (!errors.As(err, &exit) || exit.ExitCode() == exitFault) {
				t.Fatalf("%v\n%s", err, said)
			}
			var verdict struct {
				Objectives []struct {
					Name    string
					Samples int
				}
			}
			raw, err := fs.ReadFile(os.DirFS(out), "verdict.json")
			if err := errors.Join(err, json.Unmarshal(raw, &verdict)); err != nil {
				t.Fatal(err)
			}
			for _, o := range verdict.Objectives {
				if o.Name == s.Objectives[0].Name && o.Samples != 20 {
					t.Errorf("%s: %d objects of 20 went through it\n%s", o.Name, o.Samples, said)
				}
			}
		})
	}
}
