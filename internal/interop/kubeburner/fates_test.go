package kubeburner

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// take imports the plain config with a part in the place of another.
func take(t *testing.T, old, with, file string) ([]byte, []Note) {
	t.Helper()
	dir, files := t.TempDir(), plainFiles()
	files["c.yml"] = plainConfig
	if file != "" {
		files[file] = with
	} else if !strings.Contains(plainConfig, old) {
		t.Fatalf("%q is not in the plain config", old)
	} else {
		files["c.yml"] = strings.Replace(plainConfig, old, with, 1)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, notes, err := Import(filepath.Join(dir, "c.yml"), Options{UUID: "u", RunID: "r"})
	if err != nil {
		t.Fatalf("%v\n%s", err, files["c.yml"])
	}
	var b bytes.Buffer
	if err := scenario.Write(&b, s); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), notes
}

// TestFates sets each field by itself, and compares what becomes of it with its declared
// fate.
func TestFates(t *testing.T) {
	all := probes()
	plain, _ := take(t, "jobs:", "jobs:", "")
	for _, of := range allFates() {
		path, _, _ := strings.Cut(of.path, ", ")
		for _, f := range of.fields {
			key := path + "." + f.name
			t.Run(key, func(t *testing.T) {
				p, ok := all[key]
				if !ok {
					t.Fatal("no probe sets it")
				}
				delete(all, key)
				before := plain
				if p.without != p.old {
					before, _ = take(t, p.old, p.without, p.file)
				}
				after, notes := take(t, p.old, p.with, p.file)
				at := slices.IndexFunc(notes, func(n Note) bool { return strings.Contains(n.Field, f.name) })
				switch same := bytes.Equal(before, after); {
				case f.fate == honored && same:
					t.Error("honored: the scenario is the same")
				case f.fate == inPart && same && at < 0:
					t.Error("in part: the scenario is the same, and no note names it")
				case f.fate != noted:
				case at < 0:
					t.Errorf("noted: no note names it: %v", notes)
				case notes[at].Changes != f.changes || notes[at].Line == 0:
					t.Errorf("noted: %+v, changes %v wanted", notes[at], f.changes)
				}
			})
		}
	}
	for key := range all {
		t.Errorf("probe %q is of no field", key)
	}
}

// TestEveryFieldHasAFate: a field without a declared fate would be dropped or honored
// without anybody's knowledge.
func TestEveryFieldHasAFate(t *testing.T) {
	fates := fatesByPlace()
	seen, known := map[reflect.Type]bool{}, map[string]bool{}
	var visit func(of reflect.Type)
	visit = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumField() {
			name := of.Field(i).Tag.Get("yaml")
			if name == "" || name == "-" {
				continue
			}
			if known[of.Name()+"."+name] = true; fates[place{of, name}] == nil {
				t.Errorf("%s.%s has no fate", of.Name(), name)
			}
			visit(of.Field(i).Type)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[config](), reflect.TypeFor[metric](), reflect.TypeFor[alert]()} {
		visit(of)
	}
	for _, of := range allFates() {
		for _, f := range of.fields {
			if !known[of.of.Name()+"."+f.name] {
				t.Errorf("%s has no field %s", of.of.Name(), f.name)
			}
		}
	}
}

// everyField is the heading of the generated part of the page, which is its last.
const everyField = "## Every field, and what becomes of it\n"

// TestPage holds the page's list of fields against the table of fates; with -update it
// writes the list anew.
func TestPage(t *testing.T) {
	path := repotest.Path(t, "docs", "coming-from-kube-burner.md")
	raw, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	text, _, ok := strings.Cut(string(raw), everyField)
	if !ok {
		t.Fatalf("the page has no heading %q", everyField)
	}
	var b strings.Builder
	b.WriteString(`
This part is generated from the importer's table (` + "`go test ./internal/interop/kubeburner -run Page -update`" + `), and tests set each field to see
that it is so. *Honored*: the scenario does what the field says. *In part*: with the difference that stands beside it. *Noted*: the scenario does not
do it, and a note says so; with *unknown* the difference changes the load or the verdict, so that the verdict is *unknown* at best. Every other field
is an error with its file and line.

| field | | becomes |
|---|---|---|
`)
	for _, of := range allFates() {
		for _, f := range of.fields {
			var paths []string
			for _, path := range strings.Split(of.path, ", ") {
				paths = append(paths, "`"+strings.TrimPrefix(path+"."+f.name, ".")+"`")
			}
			kind := string(f.fate)
			if f.changes {
				kind += ", unknown"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", strings.Join(paths, ", "), kind, strings.ReplaceAll(f.text, "|", `\|`))
		}
	}
	repotest.Golden(t, path, text+everyField+b.String())
}
