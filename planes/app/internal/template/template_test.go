package template_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

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
		for _, once := range []bool{false, true} {
			got, err := template.New(once).Evaluate(text, template.Input{Parameter: json.RawMessage(tt.parameter), Context: map[string]any{"name": "a"}}, "output", "outputs")
			if tt.fails != "" {
				if !errors.Is(err, template.ErrTemplate) || !strings.Contains(err.Error(), tt.fails) {
					t.Errorf("%s, once %v: %v, want %s", tt.parameter, once, err, tt.fails)
				}
				continue
			}
			if err != nil || string(got["output"]) != tt.want || len(got) != 1 {
				t.Errorf("%s, once %v: %s (%v), want %s", tt.parameter, once, got, err, tt.want)
			}
		}
	}
}

func TestBadTemplates(t *testing.T) {
	for _, text := range []string{"output: {", "output: missing.name", "output: context.nothing"} {
		for _, once := range []bool{false, true} {
			if got, err := template.New(once).Evaluate(text, template.Input{Context: map[string]any{"name": "a"}}, "output"); !errors.Is(err, template.ErrTemplate) {
				t.Errorf("%q, once %v: %s, %v", text, once, got, err)
			}
		}
	}
}

// TestManyGoroutines holds that what is kept compiled is one goroutine's at a time.
func TestManyGoroutines(t *testing.T) {
	e := template.New(true)
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for j := range 50 {
				want := fmt.Sprintf("%d-%d", i, j)
				got, err := e.Evaluate(text, template.Input{Context: map[string]any{"name": want}}, "output")
				if err != nil || !strings.Contains(string(got["output"]), `"`+want+`"`) {
					t.Errorf("%s: %s, %v", want, got, err)
				}
			}
		})
	}
	wait.Wait()
}

func BenchmarkEvaluate(b *testing.B) {
	for _, once := range []bool{false, true} {
		b.Run(fmt.Sprintf("once=%v", once), func(b *testing.B) {
			e := template.New(once)
			for b.Loop() {
				if _, err := e.Evaluate(text, template.Input{Context: map[string]any{"name": "a"}}, "output"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
