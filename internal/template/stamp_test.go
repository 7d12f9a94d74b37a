package template_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	clusterloader2 "github.com/windtunnel/windtunnel/internal/interop/clusterloader2/dialect"
	kubeburner "github.com/windtunnel/windtunnel/internal/interop/kubeburner/dialect"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/template"
)

// TestStamp looks at objects that are copies of segments and at those that a
// template is executed for, in all dialects.
func TestStamp(t *testing.T) {
	for name, tt := range map[string]struct {
		dialect template.Dialect
		text    string
	}{
		"segments":       {template.Windtunnel(), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}', labels: {i: '{{ .Index }}'}}\n"},
		"executed":       {template.Windtunnel(), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}'}\ndata: {odd: '{{ if eq .Index 1 }}yes{{ end }}'}\n"},
		"clusterloader2": {clusterloader2.New(), "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n"},
		"kube-burner":    {kubeburner.New(), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'x-{{ .Iteration }}'}\n"},
	} {
		b, err := template.Compile("b.yaml", tt.text, 1, tt.dialect)
		if err != nil {
			t.Fatal(name, err)
		}
		plain, err := template.Compile("b.yaml", tt.text, 1, tt.dialect)
		if err != nil {
			t.Fatal(name, err)
		}
		b.Stamp(object.Stamp{Run: "r1"}, false)
		for i := range 3 {
			v := template.Vars{Name: fmt.Sprint("n-", i), Namespace: "space-1", Index: i, With: map[string]any{kubeburner.ObjectIndexVariable: 7}}
			raw, err := b.Render(nil, v)
			if err != nil {
				t.Fatal(name, err)
			}
			var o struct {
				Metadata struct {
					Name   string
					Labels map[string]string
				}
			}
			if err := json.Unmarshal(raw, &o); err != nil || o.Metadata.Name == "" || o.Metadata.Labels[object.RunLabel] != "r1" {
				t.Errorf("%s: %s, %v", name, raw, err)
			}
			if got, want := b.Layout(v).Holes(), plain.Layout(v).Holes(); got != want || name == "segments" && got < 0 {
				t.Errorf("%s: %d holes, and %d without a stamp", name, got, want)
			}
		}
	}
}

// TestGroupLabel: objects and templates of pods without the label of their group get
// it; one of their own stays.
func TestGroupLabel(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: v1\nkind: Pod\nmetadata: {name: \"{{ .Name }}\"}\nspec: {containers: [{name: c}]}":          `{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"windtunnel.dev/group":"g"},"name":"n"},"spec":{"containers":[{"name":"c"}]}}`,
		"apiVersion: a/v1\nkind: Queue\nmetadata: {name: \"{{ .Name }}\", labels: {windtunnel.dev/group: mine}}": `{"apiVersion":"a/v1","kind":"Queue","metadata":{"labels":{"windtunnel.dev/group":"mine"},"name":"n"}}`,
		"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: \"{{ .Name }}\", labels: {windtunnel.dev/group: mine}}\nspec: {template: {metadata: {labels: {a: b}}, spec: {containers: []}}}": `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"windtunnel.dev/group":"mine"},"name":"n"},` +
			`"spec":{"template":{"metadata":{"labels":{"a":"b","windtunnel.dev/group":"g"}},"spec":{"containers":[]}}}}`,
	} {
		tm := repotest.Must(template.Compile("b.yaml", text, 1, template.Windtunnel()))(t)
		tm.Stamp(object.Stamp{}, true)
		for range 2 { // the second one may be a copy of segments
			got, err := tm.Render(nil, template.Vars{Name: "n", Namespace: "ns", Group: "g"})
			if err != nil || string(got) != want {
				t.Errorf("%v\n got %s\nwant %s", err, got, want)
			}
		}
	}
}
