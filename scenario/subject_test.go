package scenario_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func ExampleSubject_count() {
	s, err := scenario.Parse("f", []byte(`
scenario: x
parameters: {direct: false}
subjects:
- name: hub
  count: 2
  command: hub
  args: [--name=$(INDEX), --literally=$$(INDEX), --port=$(PROBE_PORT)]
  env: {WHO: hub-$(INDEX)}
- name: alone
  count: "${direct ? 1 : 0}"
  command: alone
steps:
- fault: {component: hub-2, action: kill, for: 1s}
`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, x := range s.Subjects {
		fmt.Println(x.Name, strings.Join(x.Args, " "), x.Env["WHO"])
	}
	// Output:
	// hub-1 --name=1 --literally=$$(INDEX) --port=$(PROBE_PORT) hub-1
	// hub-2 --name=2 --literally=$$(INDEX) --port=$(PROBE_PORT) hub-2
}

// TestIndexNeedsCount holds that $(INDEX) stands only where there are several.
func TestIndexNeedsCount(t *testing.T) {
	const text = "scenario: x\nsubjects:\n- name: hub\n  command: hub\n  args: [$(INDEX)]\nsteps:\n- pause: 1s\n"
	if _, err := scenario.Parse("f", []byte(text), nil); err == nil || !strings.Contains(err.Error(), "$(INDEX): there is no such variable") {
		t.Errorf("got %v", err)
	}
	var names []string
	s := repotest.Must(scenario.Parse("f", []byte(strings.Replace(text, "command: hub", "command: hub\n  count: 3", 1)), nil))(t)
	for _, x := range s.Subjects {
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"hub-1", "hub-2", "hub-3"}) {
		t.Errorf("names %v", names)
	}
}
