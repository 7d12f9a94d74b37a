package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2/config"
	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/text/linemap"
)

// read decodes a module, and returns what the reader was told, one line each.
func read(text string) (config.Module, string) {
	var m config.Module
	var told []string
	r := config.Reader{
		File:  "m.yaml",
		Fault: func(line int, text string) { told = append(told, fmt.Sprintf("fault %d %s", line, text)) },
		Unknown: func(at config.Position, field string) {
			told = append(told, fmt.Sprintf("unknown %d %s", at.Line, field))
		},
		Known: func(config.Position, string, *kit.Field, any) {},
	}
	if some, err := r.Fill(linemap.Verbatim([]byte(text)), &m); err != nil {
		told = append(told, err.Text)
	} else if !some {
		told = append(told, "nothing")
	}
	return m, strings.Join(told, "\n")
}

// Keys are known in any case, of two equal ones the last counts, and scalars of parameters
// are those of YAML 1.1.
func TestAsClusterLoader2Decodes(t *testing.T) {
	m, told := read("STEPS:\n- name: a\n  Name: b\n  measurements:\n  - method: Sleep\n    params: {on: yes, at: 2020-01-01, n: 7, quoted: \"no\"}\n---\nignored: true\n")
	if told != "" || len(m.Steps) != 1 || m.Steps[0].Name != "b" {
		t.Fatalf("%+v, %s", m, told)
	}
	p := m.Steps[0].Measurements[0].Params
	if got := fmt.Sprintf("%#v", p.Values); got != `map[string]interface {}{"at":"2020-01-01", "n":7, "on":true, "quoted":"no"}` {
		t.Error(got)
	}
	if at := p.Position(); at.File != "m.yaml" || at.Line != 6 || m.Steps[0].At("name").Line != 3 || m.Steps[0].At("module").Line != 2 {
		t.Errorf("%+v, %+v", at, m.Steps[0].Place)
	}
	over := p.Over(config.Params{Values: map[string]any{"n": 1.0, "more": 2.0}, Lines: map[string]int{"more": 9}})
	if over.Values["n"] != 7.0 || over.Values["more"] != 2.0 || over.Lines["more"] != 9 {
		t.Errorf("%+v", over)
	}
}

func TestWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "nothing",
		"steps: 5":                         `fault 1 steps: "5" in place of a list`,
		"steps:\n- {name: a, colour: red}": "unknown 2 steps[0].colour",
		"steps:\n- {phases: [{replicasPerNamespace: 1.5}]}": `fault 2 steps[0].phases[0].replicasPerNamespace: "1.5" is not a whole number`,
	} {
		if _, told := read(text); told != want {
			t.Errorf("%q: %s, want %s", text, told, want)
		}
	}
	if d := config.Duration(0); d.UnmarshalText([]byte("90s")) != nil || time.Duration(d) != 90*time.Second || d.String() != "1m30s" {
		t.Error(d)
	}
}
