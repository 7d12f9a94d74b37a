// Package style_test holds the rules of the house that a machine can check:
// floors, names, sizes, and where the clock and the heavy dependencies may be
// touched. ARCHITECTURE.md says why. Exceptions are named in exceptions_test.go.
package style_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

const module = "github.com/windtunnel/windtunnel/"

// file is one parsed source file.
type file struct {
	path, folder string // from the root, with slashes
	test         bool
	ast          *ast.File
	lines        int
}

type tree struct {
	fset  *token.FileSet
	files []file
}

func load(t *testing.T) tree {
	t.Helper()
	out := tree{fset: token.NewFileSet()}
	repotest.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != "../.." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "testdata", "runs", "bin"}, name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		parsed, err := parser.ParseFile(out.fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("../..", path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		out.files = append(out.files, file{
			path: rel, folder: strings.TrimPrefix(filepath.ToSlash(filepath.Dir(rel)), "./"),
			test: strings.HasSuffix(name, "_test.go"), ast: parsed,
			lines: out.fset.File(parsed.Pos()).LineCount(),
		})
		return nil
	}))
	if len(out.files) < 10 {
		t.Fatalf("only %d files found: the walk is broken", len(out.files))
	}
	return out
}

// at writes a position from the root.
func (tr tree) at(pos token.Pos) string {
	p := tr.fset.Position(pos)
	return strings.TrimPrefix(filepath.ToSlash(p.Filename), "../../") + ":" + strconv.Itoa(p.Line)
}

// within says whether a folder is the room or lies in it.
func within(folder, room string) bool {
	return folder == room || (room != "." && strings.HasPrefix(folder, room+"/"))
}

// room returns the entry of levels that a folder belongs to and its level: the
// longest prefix that stands there.
func room(folder string) (name string, level int) {
	level = -1
	for n, rooms := range levels {
		for _, r := range rooms {
			if within(folder, r) && len(r) >= len(name) {
				name, level = r, n
			}
		}
	}
	return name, level
}

// own returns the folder of an import of this module.
func own(path string) (string, bool) {
	if path == strings.TrimSuffix(module, "/") {
		return ".", true
	}
	return strings.CutPrefix(path, module)
}

// imports returns what a file imports.
func (f file) imports() []string {
	var out []string
	for _, imp := range f.ast.Imports {
		path, _ := strconv.Unquote(imp.Path.Value)
		out = append(out, path)
	}
	return out
}

func TestImportsGoDown(t *testing.T) {
	for _, f := range load(t).files {
		from, level := room(f.folder)
		if level < 0 {
			t.Errorf("%s: folder %s stands on no level: name it in levels", f.path, f.folder)
			continue
		}
		for _, path := range f.imports() {
			folder, ours := own(path)
			if !ours {
				if door := doors[match(path)]; len(door) > 0 && !f.test && !slices.ContainsFunc(door, func(d string) bool { return within(f.folder, d) }) {
					t.Errorf("%s imports %s: its door is %v", f.path, path, door)
				}
				continue
			}
			if to, n := room(folder); (n < 0 || n >= level) && to != from && !f.test {
				t.Errorf("%s (%s, level %d) imports %s (level %d)", f.path, from, level, folder, n)
			}
		}
	}
}

// TestOpinionsBuildWithoutWhatFlies follows every import of the rooms to the
// right of the record.
func TestOpinionsBuildWithoutWhatFlies(t *testing.T) {
	graph := map[string]map[string]bool{}
	for _, f := range load(t).files {
		if f.test {
			continue
		}
		if graph[f.folder] == nil {
			graph[f.folder] = map[string]bool{}
		}
		for _, path := range f.imports() {
			if folder, ours := own(path); ours {
				graph[f.folder][folder] = true
			}
		}
	}
	// Who lives is no plane.
	harmless := func(folder string) bool {
		return folder == "internal/machine/process"
	}
	var follow func(start, folder string, seen map[string]bool)
	follow = func(start, folder string, seen map[string]bool) {
		for to := range graph[folder] {
			if seen[to] || harmless(to) {
				continue
			}
			seen[to] = true
			if slices.ContainsFunc(flying, func(r string) bool { return within(to, r) }) {
				t.Errorf("%s needs %s, by %s", start, to, folder)
			}
			follow(start, to, seen)
		}
	}
	for folder := range graph {
		if slices.ContainsFunc(opinions, func(r string) bool { return within(folder, r) }) {
			follow(folder, folder, map[string]bool{})
		}
	}
}

// TestPublicPackages finds a package that other modules could import by accident,
// and a reference plane, which is one package with its parts under internal, that
// somebody other than package planes imports; cmd imports that one alone.
func TestPublicPackages(t *testing.T) {
	for _, f := range load(t).files {
		plane := f.folder == "planes" || path.Dir(f.folder) == "planes"
		hidden := within(f.folder, "internal") || strings.Contains(f.folder, "/internal/") || strings.HasPrefix(f.folder, "examples/")
		if !hidden && !plane && !f.test && f.ast.Name.Name != "main" && !slices.Contains(public, f.folder) {
			t.Errorf("%s: package %s is public: move it under internal, or name it in public", f.path, f.ast.Name.Name)
		}
		if within(f.folder, "planes") {
			continue
		}
		for _, path := range f.imports() {
			if folder, ours := own(path); ours && within(folder, "planes") && (folder != "planes" || f.folder != "cmd/windtunnel" || f.test) {
				t.Errorf("%s imports %s: only cmd/windtunnel imports planes, and that package alone", f.path, folder)
			}
		}
	}
}

// TestRecordsAreReadOnce: what a run's records say is read by package run; those
// who read them beside it want no opinion's facts but rows, samples or a marker.
func TestRecordsAreReadOnce(t *testing.T) {
	readers := []string{"internal/record", "internal/opinion/run", "internal/record/series"}
	tr := load(t)
	for _, f := range tr.files {
		if f.test || slices.ContainsFunc(readers, func(r string) bool { return within(f.folder, r) }) || within(f.folder, "bench") {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "record" && slices.Contains([]string{"Read", "OpenTail"}, s.Sel.Name) {
				t.Errorf("%s: record.%s: the facts of a run are those of package run", tr.at(s.Pos()), s.Sel.Name)
			}
			return true
		})
	}
}

// match returns the guarded prefix that an import path falls under.
func match(path string) string {
	for prefix := range doors {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return prefix
		}
	}
	return ""
}

func TestNames(t *testing.T) {
	for _, f := range load(t).files {
		name := strings.TrimSuffix(f.ast.Name.Name, "_test")
		if slices.Contains([]string{"util", "utils", "common", "helper", "helpers", "misc", "base", "manager", "types"}, name) {
			t.Errorf("%s: package %s is no noun of the field", f.path, name)
		}
		want := filepath.Base(f.folder)
		if f.folder == "." {
			want = filepath.Base(module)
		}
		if name != want && name != "main" {
			t.Errorf("%s: package %s in folder %s", f.path, name, want)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	said := map[string]bool{}
	for _, f := range load(t).files {
		if f.ast.Doc != nil {
			said[f.folder] = true
		} else if _, seen := said[f.folder]; !seen && !f.test {
			said[f.folder] = false
		}
	}
	for folder, ok := range said {
		if !ok {
			t.Errorf("%s: no package comment", folder)
		}
	}
}

func isContext(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "context" && s.Sel.Name == "Context"
}

func TestContextComesFirstAndIsNotStored(t *testing.T) {
	tr := load(t)
	for _, f := range tr.files {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.StructType:
				for _, field := range n.Fields.List {
					if isContext(field.Type) && exceptions[f.path+":context"] == "" {
						t.Errorf("%s: a context is stored", tr.at(field.Pos()))
					}
				}
			case *ast.FuncDecl:
				for i, field := range n.Type.Params.List {
					if i > 0 && isContext(field.Type) {
						t.Errorf("%s: %s takes its context late", tr.at(n.Pos()), n.Name.Name)
					}
				}
			}
			return true
		})
	}
}

func TestOnlyClockReadsTheClock(t *testing.T) {
	tr := load(t)
	for _, f := range tr.files {
		if f.test || f.folder == "internal/clock" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := s.X.(*ast.Ident)
			if ok && x.Name == "time" && x.Obj == nil && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name) {
				if exceptions[f.path+":clock"] == "" {
					t.Errorf("%s: time.%s outside clock", tr.at(s.Pos()), s.Sel.Name)
				}
			}
			return true
		})
	}
}

func TestNoInitAndNoMutableGlobals(t *testing.T) {
	tr := load(t)
	for _, f := range tr.files {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.Name == "init" && d.Recv == nil {
					t.Errorf("%s: init()", tr.at(d.Pos()))
				}
			case *ast.GenDecl:
				if d.Tok == token.VAR {
					for _, v := range mutable(d) {
						if exceptions[f.path+":"+v] == "" {
							t.Errorf("%s: package variable %s: make it a constant, a function or a field", tr.at(d.Pos()), v)
						}
					}
				}
			}
		}
	}
}

// mutable names the variables of a declaration that are not what Go has no
// constant for: error values, compiled patterns, embedded files, interface checks.
func mutable(d *ast.GenDecl) []string {
	if embeds(d.Doc) {
		return nil
	}
	var out []string
	for _, s := range d.Specs {
		v := s.(*ast.ValueSpec)
		for i, name := range v.Names {
			if name.Name == "_" || (i < len(v.Values) && constantLike(v.Values[i])) || embeds(v.Doc) {
				continue
			}
			out = append(out, name.Name)
		}
	}
	return out
}

// embeds says whether a variable is filled by the compiler.
func embeds(doc *ast.CommentGroup) bool {
	return doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed") })
}

func constantLike(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	switch fn := call.Fun.(type) {
	case *ast.SelectorExpr:
		x, ok := fn.X.(*ast.Ident)
		return ok && slices.Contains([]string{"errors.New", "regexp.MustCompile", "crc32.MakeTable"}, x.Name+"."+fn.Sel.Name)
	case *ast.ArrayType: // []byte("constant")
		elem, ok := fn.Elt.(*ast.Ident)
		return ok && elem.Name == "byte"
	}
	return false
}

// TestGoroutinesAreGuarded holds that rooms which deal with what comes from outside start
// goroutines by guard alone: a panic in any other ends the process with the exit code
// of an unknown verdict.
func TestGoroutinesAreGuarded(t *testing.T) {
	tr := load(t)
	for _, f := range tr.files {
		if f.test || !slices.ContainsFunc(guarded, func(room string) bool { return within(f.folder, room) }) || slices.ContainsFunc(unguarded, func(room string) bool { return within(f.folder, room) }) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				t.Errorf("%s: a goroutine without guard.Go", tr.at(n.Pos()))
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "sync" && n.Sel.Name == "WaitGroup" {
					t.Errorf("%s: a sync.WaitGroup in place of a guard.Group", tr.at(n.Pos()))
				}
			}
			return true
		})
	}
}

// TestPlanesGoThroughTheDoor keeps the ways shut by which a process of a plane could
// reach an API server past package door: it has no configuration of a client but the one
// that package process gives it.
func TestPlanesGoThroughTheDoor(t *testing.T) {
	tr := load(t)
	for _, f := range tr.files {
		if f.test || !within(f.folder, "planes") || f.folder == "planes/internal/kit/process" || exceptions[f.path+":door"] != "" {
			continue
		}
		for _, path := range f.imports() {
			if slices.Contains([]string{module + "internal/api/endpoint", module + "internal/api/wire", "k8s.io/client-go/tools/clientcmd"}, path) {
				t.Errorf("%s: imports %s: a plane's clients are made of process.Env.Config, whose calls go through internal/api/door", f.path, path)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.CompositeLit); ok {
				if s, ok := l.Type.(*ast.SelectorExpr); ok && s.Sel.Name == "Config" {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "rest" {
						t.Errorf("%s: a configuration of its own: see internal/api/door", tr.at(l.Pos()))
					}
				}
			}
			return true
		})
	}
}

// TestUnmetHasOneConstructor: an event "unmet" that is written by hand may lack
// the state, and then the verdict does not know what became of what was asked for.
func TestUnmetHasOneConstructor(t *testing.T) {
	tr := load(t)
	for _, f := range tr.files {
		if f.folder == "internal/record" {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			if s, ok := kv.Value.(*ast.SelectorExpr); ok && s.Sel.Name == "EventUnmet" {
				t.Errorf("%s: an event of what was not met is made by record.Unmet", tr.at(kv.Pos()))
			}
			return true
		})
	}
}
