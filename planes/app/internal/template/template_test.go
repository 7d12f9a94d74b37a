package template_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/planes/app/internal/template"
)

const text = `
output: {
	kind: "Deployment"
	metadata: name: context.name
	spec: replicas: parameter.replicas
	if parameter.image != _|_ {
		spec: image: parameter.image
	}
}
parameter: {
	replicas: *1 | int
	image?:   string
}`

func TestEvaluate(t *testing.T) {
	for _, tt := range []struct{ parameter, want, fails string }{
		{`{}`, `{"kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1}}`, ""},
		{`{"replicas":0,"image":"nginx"}`, `{"kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":0,"image":"nginx"}}`, ""},
		{`{"replicas":"many"}`, "", "parameter.replicas"},
	} {
		for name, e := range evaluators() {
			got, err := e.Evaluate(text, template.Input{Parameter: json.RawMessage(tt.parameter), Context: map[string]any{"name": "a"}}, "output", "outputs")
			if tt.fails != "" {
				if !errors.Is(err, template.ErrTemplate) || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("%s, packages parsed %s: %v, want %s", tt.parameter, name, err, tt.fails)
				}
				continue
			}
			if err != nil || string(got["output"]) != tt.want || len(got) != 1 {
				t.Errorf("%s, packages parsed %s: %s (%v), want %s", tt.parameter, name, got, err, tt.want)
			}
		}
	}
}

func TestBadTemplates(t *testing.T) {
	for text, want := range map[string]string{
		"output: {": "expected", "output: missing.name": `reference "missing" not found`, "output: context.nothing": "undefined field: nothing",
	} {
		for name, e := range evaluators() {
			got, err := e.Evaluate(text, template.Input{Context: map[string]any{"name": "a"}}, "output")
			if !errors.Is(err, template.ErrTemplate) || !strings.Contains(err.Error(), want) {
				t.Errorf("%q, packages parsed %s: %s, %v, want %q", text, name, got, err, want)
			}
		}
	}
}

// BenchmarkEvaluate is one evaluation, with the packages parsed once and anew.
func BenchmarkEvaluate(b *testing.B) {
	for name, e := range evaluators() {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				repotest.Must(e.Evaluate(text, template.Input{Context: map[string]any{"name": "a"}}, "output"))(b)
			}
		})
	}
}

func evaluators() map[string]template.Evaluator {
	return map[string]template.Evaluator{"once": {}, "anew": {Parsed: func() {}}}
}

// TestPackages holds how much is parsed anew.
func TestPackages(t *testing.T) {
	parsed := 0
	if _, err := (template.Evaluator{Parsed: func() { parsed++ }}).Evaluate(text, template.Input{Context: map[string]any{"name": "a"}}, "output"); err != nil || parsed != 2 {
		t.Errorf("%d packages were parsed (%v), want 2", parsed, err)
	}
	for path, want := range map[string]int{"vela/op": 23000, "vela/ql": 1600} {
		if got := template.PackageSize(path); got < want*9/10 || got > want*11/10 {
			t.Errorf("%s has %d bytes, want %d", path, got, want)
		}
	}
}

func TestExpression(t *testing.T) {
	scope := map[string]any{"status": map[string]any{"a-b": map[string]any{"failed": true}, "n": 2}, "word": "x"}
	for _, tt := range []struct{ text, want, fails string }{
		{`status["a-b"].failed`, "true", ""},
		{" status.n > 1 && word == \"x\"\n", "true", ""},
		{`{w: word, s: [status.n]}`, `{"w":"x","s":[2]}`, ""},
		{`status.none`, "", "undefined field: none"},
		{`nobody.failed`, "", `reference "nobody" not found`},
		{`string`, "", "incomplete"},
		{`(`, "", "expected"},
	} {
		got, err := template.Evaluator{}.Expression(tt.text, scope)
		if tt.fails != "" {
			if !errors.Is(err, template.ErrTemplate) || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%s: %s, %v, want %s", tt.text, got, err, tt.fails)
			}
			continue
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("%s: %s (%v), want %s", tt.text, got, err, tt.want)
		}
	}
}
