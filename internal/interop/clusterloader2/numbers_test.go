package clusterloader2_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/text/environ"
)

// TestNumbersOfModules: a module's parameters are float64, whole ones too, as
// JSON makes them: comparisons with 0.0 work and those with 0 do not.
func TestNumbersOfModules(t *testing.T) {
	config := top + "- module: {path: m.yaml, params: {round: 0, replicas: 4}}\n- module: {path: m.yaml, params: {round: 1, replicas: 1e+06}}\n"
	module := `{{$previous := SubtractInt $.round 1}}
steps:
{{if ne $.round 0.0}}
- name: after {{$previous}} of {{$.replicas}}
  measurements: [{identifier: s, method: Sleep, params: {duration: 1s}}]
{{end}}
- name: create {{$.round}}
  phases:
  - {tuningSet: u, namespaceRange: {min: 1, max: 1}, replicasPerNamespace: {{$.replicas}}, objectBundle: [{basename: m-{{$.round}}, objectTemplatePath: cm.yaml}]}
`
	s, _ := imported(t, map[string]string{"c.yaml": config, "m.yaml": module, "cm.yaml": cm}, clusterloader2.Options{Nodes: 1})
	var names []string
	for _, one := range s.Steps {
		names = append(names, one.Name)
	}
	if got := len(names); got != 3 || names[1] != "after-0-of-1e-06" || s.Steps[2].Create.PerNamespace != 1_000_000 {
		t.Errorf("steps %q, %+v", names, s.Steps[2].Create)
	}
	whole := `{{if ne $.round 0}}{{end}}`
	dir := folder(t, map[string]string{"c.yaml": config, "m.yaml": whole, "cm.yaml": cm})
	if _, _, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), clusterloader2.Options{Nodes: 1}); err == nil {
		t.Error("a float64 is compared with a whole number")
	}
}

// TestValuesOfOverrides holds what a variable is in the templates, by where it
// comes from: encoding/json and YAML 1.1 for a file, strconv for the environment.
func TestValuesOfOverrides(t *testing.T) {
	const show = `{{range $name, $value := .}}{{if eq (printf "%.1s" $name) "v"}}{{$name}}={{printf "%T %v" $value $value}} {{end}}{{end}}`
	values := "va: 5\nvb: 5.5\nvc: 1000000\nvd: yes\nve: Off\nvf: \"no\"\nvg: 2024-05-06\nvh: 0x10\nvi: [1, on, {2: 3}]\nvj: ~\nvk: text\nvl: 18446744073709551615\n"
	want := "va=float64 5 vb=float64 5.5 vc=float64 1e+06 vd=bool true ve=bool false vf=string no vg=string 2024-05-06 vh=float64 16 " +
		"vi=[]interface {} [1 true map[2:3]] vj=<nil> <nil> vk=string text vl=float64 1.8446744073709552e+19"
	s, _ := imported(t, map[string]string{"c.yaml": "name: t\nsteps:\n- name: s\n  measurements: [{identifier: i, method: Exec, params: {command: ['" + show + "']}}]\n", "o.yaml": values},
		clusterloader2.Options{Nodes: 1, Overrides: []string{"o.yaml"}})
	if got := s.Steps[0].Exec.Command[0]; got != want+" " {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	env := environ.New([]string{"CL2_A=5", "CL2_B=1e3", "CL2_C=true", "CL2_D=text=5", "CL2_E="}, nil)
	shown := `{{range $name, $value := .}}{{if eq (printf "%.4s" $name) "CL2_"}}{{$name}}={{printf "%T %v" $value $value}} {{end}}{{end}}`
	s, _ = imported(t, map[string]string{"c.yaml": "name: t\nsteps:\n- name: s\n  measurements: [{identifier: i, method: Exec, params: {command: ['" + shown + "']}}]\n"},
		clusterloader2.Options{Nodes: 1, Env: env})
	if got, want := s.Steps[0].Exec.Command[0], "CL2_A=int64 5 CL2_B=float64 1000 CL2_C=bool true CL2_D=string text=5 CL2_E=string  "; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}

// TestVariablesThatAgree: a number of a file and the same of the environment
// are no contradiction.
func TestVariablesThatAgree(t *testing.T) {
	files := map[string]string{"c.yaml": top + measured("Sleep", "duration: 1s"), "o.yaml": "CL2_A: 1000000\nCL2_B: yes\n"}
	imported(t, files, clusterloader2.Options{Nodes: 1, Overrides: []string{"o.yaml"}, Env: environ.New([]string{"CL2_A=1000000", "CL2_B=true"}, nil)})
}

// TestNumberOfNamespaces holds ClusterLoader2's defaults: 1 in place of 0, and
// automanagedNamespaces only beside a number of 1.
func TestNumberOfNamespaces(t *testing.T) {
	for fields, want := range map[string]int{
		"": 1, "namespace: {number: 0}\n": 1, "namespace: {number: 3}\n": 3, "automanagedNamespaces: 4\n": 4,
		"automanagedNamespaces: 4\nnamespace: {number: 0}\n": 4, "automanagedNamespaces: 4\nnamespace: {number: 1}\n": 4,
		"automanagedNamespaces: 4\nnamespace: {number: 2}\n": 2, "automanagedNamespaces: 0\n": 1,
	} {
		s, _ := imported(t, map[string]string{"c.yaml": fields + top + phase(bundle), "cm.yaml": cm}, clusterloader2.Options{Nodes: 1})
		if s.Namespaces.Count != want {
			t.Errorf("%q: %d namespaces, want %d", fields, s.Namespaces.Count, want)
		}
	}
}

// TestVariablesOfModules: a module sees the run's variables and its own
// parameters, and nothing of the module that it stands in.
func TestVariablesOfModules(t *testing.T) {
	inner := "steps:\n- {name: 'inner {{DefaultParam .outer 5}} {{.own}} {{.CL2_RUN}}', measurements: [{identifier: i, method: Sleep, params: {duration: 1s}}]}\n"
	s, _ := imported(t, map[string]string{
		"c.yaml": "name: t\nsteps: [{module: {path: outer.yaml, params: {outer: 7}}}]\n", "outer.yaml": "steps: [{module: {path: inner.yaml, params: {own: 8}}}]\n", "inner.yaml": inner,
	}, clusterloader2.Options{Nodes: 1, Env: environ.New([]string{"CL2_RUN=9"}, nil)})
	if got, want := s.Steps[0].Name, "inner-5-8-9"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestVariablesThatLookLikeSecrets: a variable that the templates do not see may
// change the load.
func TestVariablesThatLookLikeSecrets(t *testing.T) {
	dir := folder(t, map[string]string{"c.yaml": top + measured("Sleep", "duration: 1s")})
	_, notes, err := clusterloader2.Import(filepath.Join(dir, "c.yaml"), clusterloader2.Options{Nodes: 1, Env: environ.New([]string{"CL2_API_TOKEN=5"}, nil)})
	if err != nil || len(notes) == 0 || !notes[0].Changes || notes[0].Text != "the templates do not see CL2_API_TOKEN, because it looks like a secret: --env CL2_API_TOKEN gives it to them" {
		t.Errorf("%v %+v", err, notes)
	}
}

// TestTokenBuckets: a burst is due at once, the rest at the rate; phases of a
// step share both.
func TestTokenBuckets(t *testing.T) {
	one := func(name string) string {
		return "{tuningSet: u, namespaceRange: {min: 1, max: 1}, replicasPerNamespace: 10, objectBundle: [{basename: " + name + ", objectTemplatePath: cm.yaml}]}"
	}
	for _, tt := range []struct{ burst, phases, want string }{
		{"1", one("a"), "constant 5"}, {"4", one("a"), "4 at once, then 5"}, {"4", one("a") + ", " + one("b"), "2 at once, then 2.5, 2 at once, then 2.5"},
	} {
		s, _ := imported(t, map[string]string{"c.yaml": "name: t\ntuningSets: [{name: u, globalQPSLoad: {qps: 5, burst: " + tt.burst + "}}]\nsteps: [{name: s, phases: [" + tt.phases + "]}]\n", "cm.yaml": cm},
			clusterloader2.Options{Nodes: 1})
		var got []string
		for one := range s.AllSteps() {
			switch p := one.Create; {
			case p == nil:
			case len(p.Pace.Steps) > 0:
				got = append(got, fmt.Sprintf("%v at once, then %v", p.Pace.Steps[0].Rate*time.Duration(p.Pace.Steps[0].For).Seconds(), p.Pace.Steps[1].Rate))
			default:
				got = append(got, fmt.Sprint("constant ", p.Pace.Constant))
			}
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("burst %s of %s\n got %s\nwant %s", tt.burst, tt.phases, strings.Join(got, ", "), tt.want)
		}
	}
}
