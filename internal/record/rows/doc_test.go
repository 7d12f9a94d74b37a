package rows_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record/rows"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const page = "../../../docs/reference/records.md"

// TestPageNamesEveryColumn holds docs/reference/records.md against the rows' types.
func TestPageNamesEveryColumn(t *testing.T) {
	raw := repotest.Must(os.ReadFile(page))(t)
	text := string(raw)
	for _, one := range []struct {
		name string
		row  reflect.Type
	}{
		{"calls", reflect.TypeFor[rows.Call]()}, {"lifecycles", reflect.TypeFor[rows.Phase]()}, {"samples", reflect.TypeFor[rows.Sample]()},
		{"histograms", reflect.TypeFor[rows.Histogram]()}, {"scrapes", reflect.TypeFor[rows.Scrape]()}, {"events", reflect.TypeFor[rows.Event]()},
	} {
		before, rest, ok := strings.Cut(text, "\n### "+one.name+"\n\n")
		if !ok {
			t.Fatalf("%s has no heading %s", page, one.name)
		}
		text = before + "\n### " + one.name + "\n\n" + columns(t, one.row) + behindTable(rest)
	}
	repotest.Golden(t, page, text)
}

// behindTable returns what follows the first table of a text.
func behindTable(text string) string {
	inside, n := false, 0
	for line := range strings.Lines(text) {
		if row := strings.HasPrefix(line, "|"); inside && !row {
			break
		} else if row {
			inside = true
		}
		n += len(line)
	}
	return text[n:]
}

// columns writes a table's columns as Markdown, from the fields' types, tags
// and comments. A column that may be empty says when, one that may not is silent.
func columns(t *testing.T, row reflect.Type) string {
	t.Helper()
	doc, comments := commentsOf(t, row.Name())
	b := &strings.Builder{}
	fmt.Fprintf(b, "%s\n\n| column | type | unit | |\n|---|---|---|---|\n", doc)
	for i := range row.NumField() {
		f := row.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("parquet"), ",")
		comment, unit := comments[f.Name], f.Tag.Get("unit")
		if optional := strings.Contains(options, "optional"); optional != strings.Contains(comment, "empty: ") {
			t.Errorf("%s.%s: optional %v, but its comment is %q", row.Name(), f.Name, optional, comment)
		}
		kind, number := typeName(f.Type)
		if number != (unit != "") {
			t.Errorf("%s.%s: %s with the unit %q", row.Name(), f.Name, kind, unit)
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", name, kind, unit, comment)
	}
	return b.String()
}

func typeName(t reflect.Type) (name string, number bool) {
	switch t.Kind() {
	case reflect.Pointer:
		return typeName(t.Elem())
	case reflect.Slice:
		name, number = typeName(t.Elem())
		return "list of " + name, number
	case reflect.String:
		return "text", false
	case reflect.Float64:
		return "double", true
	}
	return t.Kind().String(), true
}

// commentsOf returns the comment of a type, as one line, and those of its fields.
func commentsOf(t *testing.T, name string) (doc string, fields map[string]string) {
	t.Helper()
	file := repotest.Must(parser.ParseFile(token.NewFileSet(), "row.go", nil, parser.ParseComments))(t)
	fields = map[string]string{}
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || g.Specs[0].(*ast.TypeSpec).Name.Name != name {
			continue
		}
		for _, f := range g.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
			fields[f.Names[0].Name] = strings.TrimSpace(f.Comment.Text())
			if fields[f.Names[0].Name] == "" {
				t.Errorf("%s.%s has no comment", name, f.Names[0].Name)
			}
		}
		text := strings.Join(strings.Fields(g.Doc.Text()), " ")
		return "Each row is " + strings.TrimPrefix(text, name+" is "), fields
	}
	t.Fatalf("no type %s", name)
	return "", nil
}
