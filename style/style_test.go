// Package style_test holds the rules of the house that a machine can check:
// floors, names, sizes, and where the clock and the heavy dependencies may be
// touched. ARCHITECTURE.md says why. Exceptions are named in exceptions_test.go.
package style_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
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
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != ".." && (strings.HasPrefix(name, ".") || slices.Contains([]string{"node_modules", "testdata", "runs", "bin"}, name)) {
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
		rel, err := filepath.Rel("..", path)
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
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.files) < 10 {
		t.Fatalf("only %d files found: the walk is broken", len(out.files))
	}
	return out
}

// at writes a position from the root.
func (tr tree) at(pos token.Pos) string {
	p := tr.fset.Position(pos)
	return strings.TrimPrefix(filepath.ToSlash(p.Filename), "../") + ":" + strconv.Itoa(p.Line)
}

// floor returns the floor of a folder, by its longest known prefix.
func floor(folder string) (int, bool) {
	for f := folder; ; f = filepath.ToSlash(filepath.Dir(f)) {
		if n, ok := floors[f]; ok && (f != "." || folder == ".") {
			return n, true
		}
		if f == "." {
			return 0, false
		}
	}
}

func top(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}

func TestImportsGoDown(t *testing.T) {
	for _, f := range load(t).files {
		from, ok := floor(f.folder)
		if !ok {
			t.Errorf("%s: folder %s stands on no floor: name it in floors", f.path, f.folder)
			continue
		}
		for _, imp := range f.ast.Imports {
			path, _ := strconv.Unquote(imp.Path.Value)
			rel, own := strings.CutPrefix(path, module)
			if path == strings.TrimSuffix(module, "/") {
				rel, own = ".", true
			}
			if !own {
				if door := doors[match(path)]; len(door) > 0 && !f.test && !slices.ContainsFunc(door, func(d string) bool { return f.folder == d || strings.HasPrefix(f.folder, d+"/") }) {
					t.Errorf("%s imports %s: its door is %v", f.path, path, door)
				}
				continue
			}
			to, ok := floor(rel)
			family := top(rel) == top(f.folder)
			if !ok || (to >= from && !family && !f.test) {
				t.Errorf("%s (floor %d) imports %s (floor %d)", f.path, from, rel, to)
			}
		}
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

func TestSizes(t *testing.T) {
	tr := load(t)
	var lengths []int
	for _, f := range tr.files {
		if f.lines > 500 && !f.test && exceptions[f.path] == "" {
			t.Errorf("%s: %d lines, at most 500", f.path, f.lines)
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil || f.test {
				continue
			}
			n := tr.fset.Position(fn.End()).Line - tr.fset.Position(fn.Pos()).Line + 1
			lengths = append(lengths, n)
			if n > 80 && exceptions[f.path+":"+fn.Name.Name] == "" {
				t.Errorf("%s: %s has %d lines, at most 80", tr.at(fn.Pos()), fn.Name.Name, n)
			}
			if n := parameters(fn); n > 4 && exceptions[f.path+":"+fn.Name.Name] == "" {
				t.Errorf("%s: %s takes %d parameters after ctx, at most 4", tr.at(fn.Pos()), fn.Name.Name, n)
			}
		}
	}
	slices.Sort(lengths)
	if m, p := lengths[len(lengths)/2], lengths[len(lengths)*9/10]; m > 12 || p > 45 {
		t.Errorf("functions: median %d lines (at most 12), p90 %d (at most 45)", m, p)
	}
}

// parameters counts a function's parameters without a leading context.
func parameters(fn *ast.FuncDecl) int {
	n := 0
	for i, field := range fn.Type.Params.List {
		if i == 0 && isContext(field.Type) {
			continue
		}
		n += max(1, len(field.Names))
	}
	return n
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
		if f.test || f.folder == "clock" {
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
