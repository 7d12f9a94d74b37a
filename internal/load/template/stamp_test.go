package template_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/load/template"
)

// TestStamp looks at objects that are copies of segments and at those that a
// template is executed for, in all dialects.
func TestStamp(t *testing.T) {
	for name, tt := range map[string]struct{ dialect, text string }{
		"segments":       {"", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}', labels: {i: '{{ .Index }}'}}\n"},
		"executed":       {"", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ .Name }}'}\ndata: {odd: '{{ if eq .Index 1 }}yes{{ end }}'}\n"},
		"clusterloader2": {template.ClusterLoader2, "apiVersion: v1\nkind: ConfigMap\nmetadata: {generateName: x}\n"},
		"kube-burner":    {template.KubeBurner, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: 'x-{{ .Iteration }}'}\n"},
	} {
		b, err := template.Compile("b.yaml", tt.text, 1, tt.dialect)
		if err != nil {
			t.Fatal(name, err)
		}
		plain, err := template.Compile("b.yaml", tt.text, 1, tt.dialect)
		if err != nil {
			t.Fatal(name, err)
		}
		b.Stamp(object.Stamp{Run: "r1"})
		for i := range 3 {
			v := template.Vars{Name: fmt.Sprint("n-", i), Namespace: "space-1", Index: i, With: map[string]any{template.ObjectIndexVariable: 7}}
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
