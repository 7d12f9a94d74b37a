package scenario

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// expression is what stands for a value that is computed.
const expression = `\$\{`

// MakeSchema makes what Schema returns from the types of the language and their
// comments.
func MakeSchema() []byte {
	m := &schemaMaker{comments: commentsOf("scenario.go", "plane.go", "members.go", "steps.go", "clients.go", "network.go", "lifecycles.go", "subject.go", "build.go"), defs: object{}}
	s := m.record(reflect.TypeFor[Scenario]())
	s["$defs"] = m.defs
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "windtunnel scenario"
	raw, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("scenario: schema: " + err.Error()) // only maps, lists and texts are in it
	}
	return append(raw, '\n')
}

type object = map[string]any

type schemaMaker struct {
	comments map[string]string
	defs     object // by the type's name: steps hold steps
}

// reference names a struct's definition, which it makes at the first call.
func (m *schemaMaker) reference(t reflect.Type) object {
	if _, ok := m.defs[t.Name()]; !ok {
		m.defs[t.Name()] = nil
		m.defs[t.Name()] = m.record(t)
	}
	return object{"$ref": "#/$defs/" + t.Name()}
}

// record describes a struct.
func (m *schemaMaker) record(t reflect.Type) object {
	properties := object{}
	for _, f := range strictyaml.Fields(t) {
		p := m.value(t.Field(f.Index).Type)
		if of := numberOf(typeLabel(t) + "." + f.Name); of != "" {
			p = object{"anyOf": []any{object{"type": "number"}, object{"type": "string", "pattern": `^-?[0-9]|` + expression}}}
		}
		if list := fieldWords(typeLabel(t) + "." + f.Name); list != nil {
			p = object{"anyOf": []any{object{"enum": list}, object{"type": "string", "pattern": expression}}}
		}
		if text := m.describe(t, f); text != "" {
			p["description"] = text
		}
		properties[f.Name] = p
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if text := m.comments[t.Name()]; text != "" {
		s["description"] = text
	}
	rules(t, s)
	return s
}

// describe returns the comment of a field, or else that of its type.
func (m *schemaMaker) describe(t reflect.Type, f strictyaml.Field) string {
	one := t.Field(f.Index)
	if text := m.comments[t.Name()+"."+one.Name]; text != "" {
		return text
	}
	if of := one.Type; of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		return m.comments[of.Elem().Name()]
	}
	return m.comments[one.Type.Name()]
}

// rules adds what a struct needs to have.
func rules(t reflect.Type, s object) {
	one := func(names ...string) []any {
		var list []any
		for _, name := range names {
			list = append(list, object{"required": []string{name}})
		}
		return list
	}
	switch t {
	case reflect.TypeFor[Scenario]():
		s["required"] = []string{"scenario", "steps"}
	case reflect.TypeFor[Group]():
		s["required"] = []string{"name", "selector"}
	case reflect.TypeFor[Body]():
		s["oneOf"] = one("text", "file", "exemplar")
	case reflect.TypeFor[Build]():
		s["required"] = []string{"module", "version"}
	case reflect.TypeFor[Subject]():
		s["required"] = []string{"name"}
		s["oneOf"] = one("command", "build", "windtunnel", "external")
	case reflect.TypeFor[Lifecycle]():
		s["oneOf"] = one("use", "of")
	case reflect.TypeFor[Link]():
		s["required"] = []string{"name", "of"}
	case reflect.TypeFor[Step]():
		s["oneOf"] = one(stepVerbs()...)
	case reflect.TypeFor[Create]():
		s["required"] = required(t)
		s["allOf"] = []any{object{"oneOf": one("body", "objects")}, object{"oneOf": one("count", "perNamespace")}}
	case reflect.TypeFor[Requests](), reflect.TypeFor[Probe](), reflect.TypeFor[Scale](), reflect.TypeFor[Update](), reflect.TypeFor[Churn](), reflect.TypeFor[Delete]():
		s["required"] = required(t)
	case reflect.TypeFor[Call]():
		s["required"] = []string{"verb"}
	case reflect.TypeFor[Item]():
		s["required"] = []string{"body"}
	case reflect.TypeFor[Repeat]():
		s["required"] = []string{"times", "steps"}
	case reflect.TypeFor[Exec]():
		s["required"] = []string{"command"}
	case reflect.TypeFor[Disturbance]():
		s["oneOf"] = one("component", "cluster", "client", "nodes", "pods")
		s["required"] = []string{"action"}
	case reflect.TypeFor[Wait]():
		s["oneOf"] = one("pods", "objects")
	case reflect.TypeFor[Pace]():
		s["oneOf"] = one(paceKinds()...)
	case reflect.TypeFor[Objective]():
		s["oneOf"] = one("slo", "sli", "query", "measure", "unsupported")
	case reflect.TypeFor[Measure]():
		s["required"] = []string{"name"}
	case reflect.TypeFor[Chart]():
		s["required"] = []string{"name", "query"}
	case reflect.TypeFor[Published]():
		s["required"] = []string{"measure", "source"}
	}
}

// required are the fields that steps which send calls need.
func required(t reflect.Type) []string {
	var out []string
	for _, f := range strictyaml.Fields(t) {
		if slices.Contains([]string{"step", "mix", "pace", "percent"}, f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// value describes a field's type.
func (m *schemaMaker) value(t reflect.Type) object {
	computed := object{"type": "string", "pattern": expression}
	switch t {
	case reflect.TypeFor[unit.Duration]():
		return object{"type": "string", "pattern": `^-?[0-9.]+(ns|us|µs|ms|s|m|h)|` + expression}
	case reflect.TypeFor[unit.Bytes]():
		return object{"type": []string{"string", "integer"}}
	case reflect.TypeFor[Holds](), reflect.TypeFor[Asked]():
		return object{"type": []string{"string", "boolean"}}
	case reflect.TypeFor[Parameters]():
		return object{"type": "object", "propertyNames": object{"pattern": parameterName.String()},
			"additionalProperties": object{"type": []string{"boolean", "number", "string"}}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return m.value(t.Elem())
	case reflect.Struct:
		return m.reference(t)
	case reflect.Map:
		s := object{"type": "object", "additionalProperties": m.value(t.Elem())}
		if t.Elem() == reflect.TypeFor[Component]() {
			s["propertyNames"] = object{"pattern": "^(" + strings.Join(Components(), "|") + ")(-[0-9])?$"}
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

// commentsOf returns the comments of the types in some files and of their fields,
// by "Type" and "Type.Field".
func commentsOf(files ...string) map[string]string {
	out := map[string]string{}
	for _, file := range files {
		comments(file, out)
	}
	return out
}

func comments(name string, out map[string]string) {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
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
						out[t.Name.Name+"."+name.Name] = strings.TrimSpace(sentence(f.Doc) + " " + sentence(f.Comment))
					}
				}
			}
		}
	}
}

func sentence(c *ast.CommentGroup) string { return strings.Join(strings.Fields(c.Text()), " ") }
