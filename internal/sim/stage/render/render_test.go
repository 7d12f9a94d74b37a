package render_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/stage/render"
)

func env() *render.Env {
	return &render.Env{
		Now: time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC), Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Version: "v7",
		Rand: rand.New(rand.NewPCG(1, 1)),
		Functions: map[string]render.Function{
			"NodeIP":      func(...any) (any, error) { return "10.0.0.1", nil },
			"NodeIPsWith": func(args ...any) (any, error) { return []string{"10.0.0.2"}, nil },
			"PodIPWith": func(args ...any) (any, error) {
				if args[0] == nil {
					return nil, errors.New("no node")
				}
				return args[0].(string) + "-pod", nil
			},
		},
	}
}

func object() map[string]any {
	return map[string]any{
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"b": "1", "a": "2"}},
		"spec":     map[string]any{"replicas": json.Number("1000000"), "nodeName": "n"},
	}
}

func TestJSON(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  `null`,
		"a: {{ .metadata.name }}":           `{"a":"a"}`,
		"a: {{ .spec.replicas }}":           `{"a":1000000}`,
		"a: {{ .metadata.name | Quote }}":   `{"a":"a"}`,
		"a: {{ .spec.replicas | Quote }}":   `{"a":"1000000"}`,
		`a: {{ Quote "x\"y" }}`:             `{"a":"x\"y"}`,
		"a: {{ .nothing | Quote }}":         `{"a":"null"}`,
		"a: {{ Now | Quote }}":              `{"a":"2026-01-02T03:04:05.0000006Z"}`,
		`a: {{ now | date "2006" }}`:        `{"a":2026}`,
		"a: {{ StartTime | Quote }}":        `{"a":"2026-01-01T00:00:00Z"}`,
		"a: {{ Version }}":                  `{"a":"v7"}`,
		"a:\n{{ YAML .metadata.labels 1 }}": `{"a":{"a":"2","b":"1"}}`,
		"{{ YAML .metadata.labels }}":       `{"a":"2","b":"1"}`,
		"a: {{ NodeIP }}":                   `{"a":"10.0.0.1"}`,
		"a: {{ NodeName | Quote }}":         `{"a":""}`,
		"a: [{{ range NodeIPsWith .spec.nodeName }}{{ . | Quote }}{{ end }}{{ range PodIPsWith }}x{{ end }}]": `{"a":["10.0.0.2"]}`,
		"a: {{ PodIPWith .spec.nodeName }}":     `{"a":"n-pod"}`,
		"a: {{ len NodeConditions }}":           `{"a":5}`,
		"a: {{ add .spec.replicas 1 }}":         `{"a":1000001}`,
		`a: {{ default "x" .nothing.deeper }}`:  `{"a":"x"}`,
		"a: {{ uuidv4 | len }}":                 `{"a":36}`,
		` {"a": {{ .spec.nodeName | quote }}} `: `{"a": "n"}`,
		`{"a": {{ .metadata.name }}}`:           `{"a":"a"}`,
		"a: {{ randAlphaNum 5 | len }}":         `{"a":5}`,
	} {
		tmpl, err := render.Compile(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := tmpl.JSON(object(), env()); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
}

// TestSeed shows that chance comes from the env alone.
func TestSeed(t *testing.T) {
	tmpl := repotest.Must(render.Compile("a: [{{ randInt 0 1000000 }}, {{ uuidv4 }}, {{ randAlpha 9 }}, '{{ randNumeric 9 }}']"))(t)
	a, _ := tmpl.JSON(nil, env())
	b, _ := tmpl.JSON(nil, env())
	if string(a) != string(b) || len(a) < 60 {
		t.Errorf("%s, %s", a, b)
	}
	free, err := tmpl.JSON(nil, &render.Env{})
	if err != nil || string(free) == string(a) {
		t.Errorf("%s, %v", free, err)
	}
}

func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"a: {{ nosuch }}":                         `line 1 of the template: function "nosuch" not defined`,
		"\n\na:\n  {{ if }}":                      "line 4 of the template: missing value for if",
		"a: {{ env \"HOME\" }}":                   `line 1 of the template: function "env" not defined`,
		"{{ range .x }}":                          "line 1 of the template: unexpected EOF",
		"\na: 1\nb: {{ index .metadata.name 3 }}": "line 3 of the template: <index .metadata.name 3>: error calling index: index out of range: 3",
		"a: {{ PodIPWith .none }}":                "line 1 of the template: <PodIPWith .none>: error calling PodIPWith: no node",
		"a: {{ .metadata.name.deeper }}":          "line 1 of the template: <.metadata.name.deeper>: can't evaluate field deeper in type interface {}",
		"a: [":                                    "renders to no YAML: line 1: did not find expected node content",
		"{{ YAML . 1 2 }}":                        "line 1 of the template: <YAML . 1 2>: error calling YAML: YAML takes a value and at most one depth",
		"a: {{ template \"template\" . }}":        "line 1 of the template: ",
	} {
		tmpl, err := render.Compile(text)
		if err == nil {
			_, err = tmpl.JSON(object(), env())
		}
		var e *render.Error
		if !errors.As(err, &e) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	tmpl := repotest.Must(render.Compile("a: {{ Version }}-{{ NodeName }}"))(t)
	var wg sync.WaitGroup
	for _, version := range []string{"1", "2", "3", "4"} {
		wg.Go(func() {
			for range 200 {
				e := &render.Env{Version: version, Functions: map[string]render.Function{"NodeName": func(...any) (any, error) { return version, nil }}}
				if got, err := tmpl.JSON(nil, e); err != nil || string(got) != `{"a":"`+version+"-"+version+`"}` {
					t.Errorf("%s, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
