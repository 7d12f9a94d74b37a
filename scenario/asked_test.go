package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

const conditional = `scenario: conditional
parameters: {extra: true, nodes: 10, unused: 1}
subjects:
- {name: one, command: /bin/true}
- {name: two, command: /bin/true, when: extra}
fleet: {nodes: "${nodes}"}
steps:
- {name: always, pause: 1s}
- name: together
  parallel:
  - {name: small, pause: 1s, when: "${nodes < 100}"}
  - {name: large, pause: 2s, when: "!extra || nodes >= 100"}
  - sequence:
    - {name: first, pause: 1s}
    - {pause: 3s, when: extra}
- {name: rounds, when: extra, repeat: {times: 2, steps: [{name: round, pause: 1s}, {name: odd, pause: 1s, when: nodes == 11}]}}
objectives:
- {name: a, query: up, max: 1}
- {name: b, query: up, max: 1, when: extra}
measures:
- {name: m, query: up, when: "extra && nodes > 5"}
- {name: n, query: up}
`

// TestWhatIsLeftOut reads a scenario with conditions: what has one that does not hold is
// not part of it, and is said.
func TestWhatIsLeftOut(t *testing.T) {
	for _, tt := range []struct {
		set                         map[string]string
		steps, subjects, objectives string
		left                        string
	}{
		{nil, "always together small first pause rounds", "one two", "a b", "step large, step odd"},
		{map[string]string{"extra": "false"}, "always together small large first", "one", "a", "subject two, step in line 15, step rounds, objective b, measure m"},
		{map[string]string{"nodes": "100"}, "always together large first pause rounds", "one two", "a b", "step small, step odd"},
		{map[string]string{"nodes": "11"}, "always together small first pause rounds odd", "one two", "a b", "step large"},
	} {
		s := repotest.Must(scenario.Parse("x.yaml", []byte(conditional), tt.set))(t)
		var steps, subjects, objectives []string
		for step := range s.AllSteps() {
			if name, _, _ := strings.Cut(strings.Replace(step.Name, "round-", "rounds-", 1), "-"); step.Name != "" && name != "sequence" && !slices.Contains(steps, name) {
				steps = append(steps, name)
			}
		}
		for _, x := range s.Subjects {
			subjects = append(subjects, x.Name)
		}
		for _, o := range s.Objectives {
			objectives = append(objectives, o.Name)
		}
		got := []string{strings.Join(steps, " "), strings.Join(subjects, " "), strings.Join(objectives, " "), strings.Join(s.LeftOut(), ", ")}
		if want := []string{tt.steps, tt.subjects, tt.objectives, tt.left}; !slices.Equal(got, want) {
			t.Errorf("%v:\n got %q\nwant %q", tt.set, got, want)
		}
		var written strings.Builder
		if err := scenario.Write(&written, s); err != nil || strings.Contains(written.String(), "when:") {
			t.Errorf("%v: written with conditions (%v):\n%s", tt.set, err, &written)
		}
		if err := s.CheckSet(tt.set); err != nil {
			t.Errorf("%v is in use: %v", tt.set, err)
		}
	}
}

// TestConditionsThatSayNothing holds what is said of conditions that are none, and of what
// names something that was left out.
func TestConditionsThatSayNothing(t *testing.T) {
	head := "scenario: x\nparameters: {some: true, size: 3}\nsteps:\n"
	for _, tt := range []struct{ file, want string }{
		{head + "- {pause: 1s, when: size}\n", `x.yaml:4: step.when: "size" is neither true nor false, but 3`},
		{head + "- {pause: 1s, when: nodes > 3}\n", "x.yaml:4: step.when: "},
		{head + "- {repeat: {times: 2, steps: [{pause: 1s, when: round == 0}]}}\n", "x.yaml:4: step.when: "},
		{head + "- {pause: 1s, when: [some]}\n", "x.yaml:4: step.when: "},
		{head + "- {pause: 1s, when: 1s}\n", "x.yaml:4: step.when: "},
		{head + "- {pause: 1s, when: \"\"}\n", "x.yaml:4: step.when: "},
		{head + "- {name: a, pause: 1s, when: \"!some\"}\n- {pause: 1s}\nobjectives: [{query: up, max: 1, name: o, since: a}]\n", `x.yaml:6: objective.since: no step is called "a": it is left out, since its condition (when) does not hold`},
		{head + "- &a {name: a, parallel: [*a], when: some}\n", "x.yaml:"},
		{head + "- {pause: 1s, when: false}\n", "x.yaml:4: scenario: no steps, or only some whose conditions (when) do not hold"},
		{head + "- {pause: 1s, wenn: some}\n", "wenn"},
	} {
		_, err := scenario.Parse("x.yaml", []byte(tt.file), nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s\n got %v\nwant %s", tt.file, err, tt.want)
		} else {
			t.Log(err)
		}
	}
}
