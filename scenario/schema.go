package scenario

import (
	_ "embed" // the types' own source: their comments are the schema's descriptions
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strings"

	"github.com/windtunnel/windtunnel/unit"
)

var (
	//go:embed scenario.go
	source string
)

// expression is what stands for a value that is computed.
const expression = `\$\{`

// Schema returns the JSON Schema (draft 2020-12) of a scenario file, for
// editors: it is made from the types of the language and their comments. What
// depends on several fields is left to Load.
func Schema() []byte {
	m := &schemaMaker{comments: commentsOf(source)}
	s := m.record(reflect.TypeFor[Scenario]())
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "windtunnel scenario"
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("scenario: schema: " + err.Error()) // only maps, lists and texts are in it
	}
	return append(raw, '\n')
}

type object = map[string]any

type schemaMaker struct{ comments map[string]string }

// record describes a struct.
func (m *schemaMaker) record(t reflect.Type) object {
	properties := object{}
	for _, f := range fieldsOf(t) {
		p := m.value(t.Field(f.index).Type)
		label := typeLabel(t) + "." + f.name
		if list := words(label); list != nil {
			p = object{"anyOf": []any{object{"enum": list}, object{"type": "string", "pattern": expression}}}
		}
		if text := m.comments[t.Name()+"."+t.Field(f.index).Name]; text != "" {
			p["description"] = text
		}
		properties[f.name] = p
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if text := m.comments[t.Name()]; text != "" {
		s["description"] = text
	}
	rules(t, s)
	return s
}

// rules adds what a struct needs to have.
func rules(t reflect.Type, s object) {
	one := func(names ...string) {
		var list []any
		for _, name := range names {
			list = append(list, object{"required": []string{name}})
		}
		s["oneOf"] = list
	}
	switch t {
	case reflect.TypeFor[Scenario]():
		s["required"] = []string{"scenario", "steps"}
	case reflect.TypeFor[Body]():
		one("text", "file")
	case reflect.TypeFor[Step]():
		one("create", "wait", "delete", "pause")
	case reflect.TypeFor[Create]():
		s["required"] = []string{"body", "count", "pace"}
	case reflect.TypeFor[Delete]():
		s["required"] = []string{"step", "pace"}
	case reflect.TypeFor[Wait]():
		s["required"] = []string{"pods", "are"}
	case reflect.TypeFor[Pace]():
		one("constant", "poisson", "burst")
	case reflect.TypeFor[Objective]():
		one("slo", "sli")
	case reflect.TypeFor[Published]():
		s["required"] = []string{"measure", "source"}
	}
}

// value describes a field's type.
func (m *schemaMaker) value(t reflect.Type) object {
	computed := object{"type": "string", "pattern": expression}
	switch t {
	case reflect.TypeFor[unit.Duration]():
		return object{"type": "string", "pattern": `^[0-9.]+(ns|us|µs|ms|s|m|h)|` + expression}
	case reflect.TypeFor[unit.Bytes]():
		return object{"type": []string{"string", "integer"}}
	case reflect.TypeFor[Parameters]():
		return object{"type": "object", "propertyNames": object{"pattern": parameterName.String()},
			"additionalProperties": object{"type": []string{"boolean", "number", "string"}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem())
	case reflect.Struct:
		return m.record(t)
	case reflect.Map:
		s := object{"type": "object", "additionalProperties": m.value(t.Elem())}
		if t.Elem() == reflect.TypeFor[Component]() {
			s["propertyNames"] = object{"enum": Components()}
		}
		return s
	case reflect.Slice:
		return object{"type": "array", "items": m.value(t.Elem())}
	case reflect.String:
		return object{"type": []string{"string", "number", "boolean"}}
	case reflect.Bool:
		return object{"anyOf": []any{object{"type": "boolean"}, computed}}
	case reflect.Float64:
		return object{"anyOf": []any{object{"type": "number"}, computed}}
	case reflect.Int, reflect.Uint64:
		return object{"anyOf": []any{object{"type": "integer"}, computed}}
	}
	return object{} // of any shape
}

// commentsOf returns the comments of types and of their fields, by "Type" and
// "Type.Field".
func commentsOf(source string) map[string]string {
	out := map[string]string{}
	file, err := parser.ParseFile(token.NewFileSet(), "scenario.go", source, parser.ParseComments)
	if err != nil {
		panic("scenario: its own source: " + err.Error()) // the compiler has read it
	}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range g.Specs {
			t, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			out[t.Name.Name] = sentence(g.Doc)
			if st, ok := t.Type.(*ast.StructType); ok {
				for _, f := range st.Fields.List {
					for _, name := range f.Names {
						out[t.Name.Name+"."+name.Name] = sentence(f.Comment)
					}
				}
			}
		}
	}
	return out
}

func sentence(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
