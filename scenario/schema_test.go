package scenario_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

func TestSchemaHoldsForTheExamples(t *testing.T) {
	var schema map[string]any
	repotest.NoError(t, json.Unmarshal(scenario.Schema(), &schema))
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	limited, err := filepath.Glob("../examples/limited/*.yaml")
	if err != nil || len(limited) == 0 {
		t.Fatalf("no limited planes: %v", err)
	}
	for _, f := range append(append(files, limited...), "testdata/everything.yaml") {
		if why := (conformer{schema}).conform(schema, readYAML(t, f), ""); why != "" {
			t.Errorf("%s: %s", f, why)
		}
	}
}

// TestSchemaRefuses checks the files of which an editor ought to complain.
func TestSchemaRefuses(t *testing.T) {
	var schema map[string]any
	repotest.NoError(t, json.Unmarshal(scenario.Schema(), &schema))
	for _, name := range []string{"unknown-field", "wrong-type", "two-verbs", "no-verb", "two-paces", "no-pace", "component", "durability",
		"duration", "sli", "bodies-text-and-file", "wait-are"} {
		if why := (conformer{schema}).conform(schema, readYAML(t, "testdata/"+name+".bad.yaml"), ""); why == "" {
			t.Errorf("the schema has nothing against %s.bad.yaml", name)
		}
	}
}

func TestSchemaDescribesEveryField(t *testing.T) {
	var walk func(path string, s map[string]any)
	var missing []string
	walk = func(path string, s map[string]any) {
		properties, _ := s["properties"].(map[string]any)
		for name, p := range properties {
			p := p.(map[string]any)
			walk(path+"."+name, p)
			for _, key := range []string{"items", "additionalProperties"} {
				if in, ok := p[key].(map[string]any); ok {
					walk(path+"."+name, in)
				}
			}
			if p["description"] == nil {
				missing = append(missing, path+"."+name)
			}
		}
	}
	var schema map[string]any
	repotest.NoError(t, json.Unmarshal(scenario.Schema(), &schema))
	walk("", schema)
	for name, one := range schema["$defs"].(map[string]any) {
		walk(name, one.(map[string]any))
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("no description of %s", strings.Join(missing, " "))
	}
}

func readYAML(t *testing.T, file string) any {
	t.Helper()
	raw := repotest.Must(os.ReadFile(file))(t)
	var v any
	if err := yaml.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

type conformer struct{ root map[string]any }

// conform is as much of JSON Schema as ours uses; it returns the first
// complaint.
func (c conformer) conform(s map[string]any, v any, at string) string {
	for key, want := range s {
		var why string
		switch key {
		case "$schema", "$defs", "title", "description", "properties":
		case "$ref":
			name := strings.TrimPrefix(want.(string), "#/$defs/")
			why = c.conform(c.root["$defs"].(map[string]any)[name].(map[string]any), v, at)
		case "allOf":
			for _, one := range want.([]any) {
				why += c.conform(one.(map[string]any), v, at)
			}
		case "type":
			why = c.conformType(want, v)
		case "enum":
			if !slices.Contains(want.([]any), v) {
				why = fmt.Sprintf("%v is not one of %v", v, want)
			}
		case "pattern":
			if text, ok := v.(string); ok && !regexp.MustCompile(want.(string)).MatchString(text) {
				why = fmt.Sprintf("%q does not match %v", text, want)
			}
		case "anyOf", "oneOf":
			n := 0
			for _, one := range want.([]any) {
				if c.conform(one.(map[string]any), v, at) == "" {
					n++
				}
			}
			if n == 0 || key == "oneOf" && n > 1 {
				why = fmt.Sprintf("%v fits %d of %s", v, n, key)
			}
		case "required":
			for _, name := range want.([]any) {
				if m, ok := v.(map[string]any); ok && m[name.(string)] == nil {
					why = fmt.Sprintf("no %v", name)
				}
			}
		case "items":
			list, _ := v.([]any)
			for i, item := range list {
				why += c.conform(want.(map[string]any), item, fmt.Sprintf("%s[%d]", at, i))
			}
		case "propertyNames":
			m, _ := v.(map[string]any)
			for name := range m {
				why += c.conform(want.(map[string]any), name, at)
			}
		case "additionalProperties":
			why = c.conformProperties(s, v, at)
		default:
			why = "the test does not know the keyword " + key
		}
		if why != "" {
			return at + ": " + why
		}
	}
	return ""
}

func (c conformer) conformProperties(s map[string]any, v any, at string) string {
	m, _ := v.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for name, value := range m {
		in, ok := properties[name].(map[string]any)
		if !ok {
			if in, ok = s["additionalProperties"].(map[string]any); !ok {
				return "unknown field " + name
			}
		}
		if why := c.conform(in, value, at+"."+name); why != "" {
			return why
		}
	}
	return ""
}

func (c conformer) conformType(want, v any) string {
	types, ok := want.([]any)
	if !ok {
		types = []any{want}
	}
	is := map[reflect.Kind][]any{reflect.Map: {"object"}, reflect.Slice: {"array"}, reflect.String: {"string"},
		reflect.Bool: {"boolean"}, reflect.Int: {"integer", "number"}, reflect.Float64: {"number"}}[reflect.ValueOf(v).Kind()]
	for _, t := range types {
		if slices.Contains(is, t) {
			return ""
		}
	}
	return fmt.Sprintf("%v is not of type %v", v, want)
}
