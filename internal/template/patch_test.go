package template_test

import (
	"errors"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/template"
)

func TestRenderPatch(t *testing.T) {
	v := template.Vars{Name: "a-1", Index: 1, With: map[string]any{"n": 3}}
	for text, want := range map[string]string{
		"spec: {replicas: {{ .n }}}":                             `{"spec":{"replicas":3}}`,
		`{"metadata": {"labels": {"round": "{{ .Index }}"}}}`:    `{"metadata":{"labels":{"round":"1"}}}`,
		"- {op: replace, path: /spec/replicas, value: {{ .n }}}": `[{"op":"replace","path":"/spec/replicas","value":3}]`,
		`[{"op": "remove", "path": "/x"}]`:                       `[{"op":"remove","path":"/x"}]`,
		"[{op: remove, path: /x}]":                               `[{"op":"remove","path":"/x"}]`,
	} {
		body := repotest.Must(template.Compile("f", text, 1, template.Windtunnel()))(t)
		if got, err := body.RenderPatch([]byte("x"), v); err != nil || string(got) != "x"+want {
			t.Errorf("%s: %s %v", text, got, err)
		}
	}
	empty := repotest.Must(template.Compile("f", "{{ if false }}x{{ end }}", 1, template.Windtunnel()))(t)
	if _, err := empty.RenderPatch(nil, v); !errors.Is(err, template.ErrEmpty) {
		t.Error(err)
	}
}
