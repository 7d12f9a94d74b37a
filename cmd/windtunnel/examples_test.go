package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/examples"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestWelcome holds what windtunnel says without a verb, with a control plane and without.
func TestWelcome(t *testing.T) {
	repotest.Golden(t, "testdata/welcome.golden", "== with a control plane\n"+welcome(true)+"\n== without one\n"+welcome(false))
	for _, plane := range []bool{true, false} {
		for line := range strings.Lines(welcome(plane)) {
			if len(line) > 89 { // as help texts
				t.Errorf("%d columns: %s", len(line), line)
			}
			if words, ok := strings.CutPrefix(line, "  windtunnel "); ok {
				command, _, _ := strings.Cut(words, "  ")
				if err := valid(strings.Fields(command)); err != nil {
					t.Errorf("%s: %v", command, err)
				}
			}
		}
	}
}

// TestWrittenExamplesAreSound writes each example into an empty folder and plans it there:
// what it refers to comes with it.
func TestWrittenExamplesAreSound(t *testing.T) {
	names := repotest.Must(examples.Names())(t)
	for _, name := range names {
		dir := t.TempDir()
		var out, fault strings.Builder
		env := &environment{stdout: &out, stderr: &fault}
		if err := writeExample(env, name, dir); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		args := []string{"run", filepath.Join(dir, name+".yaml"), "--plan"}
		if name == "network/worker" {
			args = append(args, "--workers", "1", "--worker-processes") // one answers at the end of its path
		}
		if code := executeVerb(t.Context(), env, args); code != 0 && !lacksProgram(fault.String()) {
			t.Errorf("%s: exit code %d: %s", name, code, &fault)
		}
	}
}
