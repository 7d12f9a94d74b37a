// Package kittest holds an importer against its table of fates: each field has
// a fate, does what the fate says, and stands on the page of the tool.
package kittest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kit"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Probes runs a probe of each field; the key of a probe is the first path of
// the field's type, a dot and its name. Each field has a probe, and each probe
// a field.
func Probes[P any](t *testing.T, table kit.Table, probes map[string]P, run func(t *testing.T, f kit.Field, p P)) {
	t.Helper()
	fields := map[string]bool{}
	for _, of := range table {
		path, _, _ := strings.Cut(of.Path, ", ")
		for _, f := range of.Fields {
			key := path + "." + f.Name
			fields[key] = true
			t.Run(key, func(t *testing.T) {
				p, ok := probes[key]
				if !ok {
					t.Fatal("no probe sets it")
				}
				run(t, f, p)
			})
		}
	}
	for key := range probes {
		if !fields[key] {
			t.Errorf("probe %q is of no field", key)
		}
	}
}

// Holds compares what a field does with its declared fate: the scenarios
// without and with it, and the notes and the error of the import with it.
func Holds(t *testing.T, f kit.Field, before, after []byte, notes []kit.Note, err error) {
	t.Helper()
	if f.Fate == kit.Refused {
		if err == nil || !strings.Contains(err.Error(), ".yaml:") || !strings.Contains(err.Error(), f.Name) {
			t.Errorf("refused: the error is %v", err)
		}
		return
	}
	if err != nil {
		t.Fatalf("with it: %v", err)
	}
	name, same := f.Name, bytes.Equal(before, after)
	if f.Within != "" {
		name = f.Within
	}
	at := slices.IndexFunc(notes, func(n kit.Note) bool { return strings.Contains(n.Field+" "+n.Text, name) })
	switch {
	case f.Fate == kit.Honored && same:
		t.Errorf("honored: the scenario is the same\n%s", after)
	case f.Fate == kit.InPart && same && at < 0:
		t.Errorf("in part: the scenario is the same, and no note names it\n%s", after)
	case f.Fate != kit.Noted:
	case at < 0:
		t.Errorf("noted: no note names it: %v\n%s", notes, after)
	case f.Within == "" && (notes[at].Changes != f.Changes || notes[at].Line == 0):
		t.Errorf("noted: %+v, want changes %v and a line", notes[at], f.Changes)
	}
}

// EveryField holds that each field of the roots, and of the types in them, has
// a fate: without one it would be dropped or honored without anybody's
// knowledge. name returns a field's name in files; empty for none of theirs.
func EveryField(t *testing.T, table kit.Table, name func(reflect.StructField) string, roots ...reflect.Type) {
	t.Helper()
	known := map[reflect.Type]map[string]bool{}
	var visit func(of reflect.Type)
	visit = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || known[of] != nil {
			return
		}
		known[of] = map[string]bool{}
		for i := range of.NumField() {
			if name := name(of.Field(i)); name != "" {
				if known[of][name] = true; table.Of(of, name) == nil {
					t.Errorf("%s.%s has no fate", of.Name(), name)
				}
				visit(of.Field(i).Type)
			}
		}
	}
	for _, of := range roots {
		visit(of)
	}
	for _, of := range table {
		for _, f := range of.Fields {
			if !known[of.Of][f.Name] {
				t.Errorf("%s has no field %s", of.Of.Name(), f.Name)
			}
		}
	}
}

// YAMLName returns the name in a field's yaml tag.
func YAMLName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return strings.TrimPrefix(name, "-")
}

// everyField is the heading of the generated part of a page, which is its last.
const everyField = "## Every field, and what becomes of it\n"

// Page holds the generated part of a page in docs/how-to; with -update it is written.
func Page(t *testing.T, name, generated string) {
	t.Helper()
	path := repotest.Path(t, "docs", "how-to", name)
	raw := repotest.Must(os.ReadFile(filepath.FromSlash(path)))(t)
	text, _, ok := strings.Cut(string(raw), everyField)
	if !ok {
		t.Fatalf("the page has no heading %q", everyField)
	}
	repotest.Golden(t, path, text+everyField+generated)
}

// Rows are the fields of a table in Markdown, one row each.
func Rows(table kit.Table) string {
	const head = "| field | | becomes |\n|---|---|---|\n"
	var b strings.Builder
	b.WriteString(head)
	for _, of := range table {
		for _, f := range of.Fields {
			var paths []string
			for path := range strings.SplitSeq(of.Path, ", ") {
				paths = append(paths, "`"+strings.TrimPrefix(path+"."+f.Name, ".")+"`")
			}
			b.WriteString(Row(strings.Join(paths, ", "), f))
		}
	}
	return b.String()
}

// Row is one field, under the name that the page gives it.
func Row(name string, f kit.Field) string {
	kind := string(f.Fate)
	if f.Changes {
		kind += ", unknown"
	}
	return fmt.Sprintf("| %s | %s | %s |\n", name, kind, strings.ReplaceAll(f.Text, "|", `\|`))
}
