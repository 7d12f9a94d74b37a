package flight

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A run is of the text that was read before, not of what has become of its file.
func TestTextInPlaceOfTheFile(t *testing.T) {
	file, seed := filepath.Join(t.TempDir(), "gone.yaml"), uint64(9)
	in, err := Options{File: file, Text: []byte("scenario: kept\nparameters: {n: 1}\nsteps:\n- {pause: \"${n}s\"}\n"), Set: map[string]string{"n": "3"}, Seed: &seed}.loadScenario()
	if err != nil || in.Scenario.Name != "kept" || in.Scenario.Seed != 9 || in.Scenario.Values["n"] != int64(3) {
		t.Errorf("%+v, %v", in.Scenario, err)
	}
	if _, err := (Options{File: file, Text: []byte("scenario: kept\nstops: []\n")}).loadScenario(); err == nil || !strings.Contains(err.Error(), "gone.yaml:2") {
		t.Errorf("an error without its place: %v", err)
	}
}

// TestFieldsThatAreNotHonored are announced in one sentence, however many they are.
func TestFieldsThatAreNotHonored(t *testing.T) {
	for want, fields := range map[string][]string{
		"1 field of c.yml is not honored (job.burst): the verdict is unknown at best; `windtunnel import c.yml` lists the reasons and writes a scenario without them":      {"job.burst"},
		"4 fields of c.yml are not honored (a, b, c, ...): the verdict is unknown at best; `windtunnel import c.yml` lists the reasons and writes a scenario without them": {"a", "b", "c", "d"},
	} {
		if got := notHonored("c.yml", fields); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Variables are for files of other tools: a scenario would read none of them.
func TestScenariosHaveNoVariables(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte("scenario: s\nsteps: [{pause: 1s}]\n"), 0o600))
	for want, o := range map[string]Options{
		"--overrides is for files of ClusterLoader2 and kube-burner; a scenario's parameters are given with --set": {File: file, Overrides: []string{"a.yaml"}},
		"--env is for files of ClusterLoader2 and kube-burner; a scenario reads nothing of the environment":        {File: file, Env: []string{"HOME"}},
	} {
		if _, err := Load(o); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
