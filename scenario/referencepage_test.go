package scenario

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text/strictyaml"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Reference returns the language as a page of Markdown: it is made from the
// types and their comments, as Schema is. docs/reference/scenario.md holds it.
func Reference() []byte {
	r := &referenceMaker{comments: commentsOf("scenario.go", "plane.go", "members.go", "steps.go", "clients.go", "network.go", "lifecycles.go", "subject.go", "build.go"), seen: map[reflect.Type]bool{}}
	r.line("# Scenario language")
	r.line("")
	r.line("After reading this page you know every field of a scenario file. For a first file, run `windtunnel init`.")
	r.line("")
	r.line("A scenario is one YAML document. An unknown field is an error. This page is generated from the types of package scenario")
	r.line("(`go test ./scenario -run Reference -update`); `windtunnel schema` prints the same as a JSON Schema for editors.")
	r.line("")
	r.line("`${...}` in a value is an expression (CEL) over the parameters, and over `${round}` in a repeat; `$${` is a literal `${`.")
	r.line("Whole and other numbers can be combined, and `/` divides exactly. The functions are %s and those of CEL on texts.", joinWords(functionNames()))
	r.line("")
	r.line("A scenario is a program: its hooks, subjects and binaries run on your machine with your rights.")
	r.line("`windtunnel run FILE --plan` lists them, and `--no-exec` refuses them: [Safety](safety.md).")
	r.structure(reflect.TypeFor[Scenario](), "scenario")
	for len(r.queue) > 0 {
		next := r.queue[0]
		r.queue = r.queue[1:]
		r.structure(next, typeLabel(next))
	}
	r.indicators()
	return []byte(r.out.String())
}

type referenceMaker struct {
	out      strings.Builder
	comments map[string]string
	seen     map[reflect.Type]bool
	queue    []reflect.Type
}

func (r *referenceMaker) line(format string, args ...any) {
	fmt.Fprintf(&r.out, format+"\n", args...)
}

// structure writes one type and queues those of its fields.
func (r *referenceMaker) structure(t reflect.Type, title string) {
	r.seen[t] = true
	r.line("\n## %s\n", title)
	if text := r.comments[t.Name()]; text != "" {
		r.line("%s\n", text)
	}
	r.line("| field | takes | |\n|---|---|---|")
	for _, f := range strictyaml.Fields(t) {
		one := t.Field(f.Index)
		takes := r.takes(one.Type)
		if example := map[string]string{"1/s": "50/s", "cores": "500m", "percent": "5%", "ratio": "5%", ownUnit: "500ms"}[numberOf(typeLabel(t)+"."+f.Name)]; example != "" {
			takes = fmt.Sprintf("a number, also `%s`", example)
		}
		if list := fieldWords(typeLabel(t) + "." + f.Name); list != nil && len(list) < 12 {
			takes = "`" + strings.Join(list, "` `") + "`"
		}
		r.line("| `%s` | %s | %s |", f.Name, takes, strings.ReplaceAll(r.comments[t.Name()+"."+one.Name], "|", `\|`))
	}
}

// takes says in words what a field takes.
func (r *referenceMaker) takes(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[unit.Duration]():
		return "a time: `90s`, `5m`"
	case reflect.TypeFor[unit.Bytes]():
		return "a size: `512Mi`"
	case reflect.TypeFor[Parameters]():
		return "name: default"
	case reflect.TypeFor[Holds](), reflect.TypeFor[Asked]():
		return "a condition over parameters: `nodes >= 100`"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return r.takes(t.Elem())
	case reflect.Slice:
		return "list of " + strings.TrimPrefix(r.takes(t.Elem()), "a ")
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return "name: any value"
		}
		return "name: " + r.takes(t.Elem())
	case reflect.Struct:
		if !r.seen[t] {
			r.seen[t] = true
			r.queue = append(r.queue, t)
		}
		return fmt.Sprintf("[%s](#%[1]s)", typeLabel(t))
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Uint64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "a text"
}

// indicators writes what objectives can bound.
func (r *referenceMaker) indicators() {
	r.line("\n## SLIs\n\nValues of `sli` in an objective.\n\n| sli | in | is | labels |\n|---|---|---|---|")
	for _, s := range SLIs() {
		r.line("| `%s` | %s | %s | %s |", s.Name, s.Unit, s.Text, strings.Join(slices.Sorted(maps.Keys(s.Labels)), ", "))
	}
}
