package style_test

import (
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What any package and any type may have. Lines are those of code: neither blank nor
// comment, without tests.
const (
	maxLines   = 3500 // of a package
	maxMethods = 40   // of a type
	maxFields  = 25   // of a struct
)

// budget is a size that something may have at most, and why it may have more than the
// rest. A room has no general bound, so its entry needs no reason.
type budget struct {
	max int
	why string
}

// slack is by how much a budget may exceed what it is for: when the code shrinks by more,
// the budget follows, so that what was won stays won.
const slack = 0.05

// check compares sizes with budgets: no size exceeds its budget, or the general bound
// where it has none, and no budget is looser than it has to be. general is 0 where
// everything that has a size has a budget.
func check(kind string, sizes map[string]int, budgets map[string]budget, general int) (faults []string) {
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		size := sizes[name]
		b, listed := budgets[name]
		switch {
		case !listed && general == 0:
			faults = append(faults, fmt.Sprintf("%s: %d %s and no budget: add an entry to budgets", name, size, kind))
		case !listed && size > general:
			faults = append(faults, fmt.Sprintf("%s: %d %s (limit %d): split it, or add an entry to budgets that says why not", name, size, kind, general))
		case listed && size > b.max:
			faults = append(faults, fmt.Sprintf("%s: %d %s (budget %d): delete as many elsewhere in it, or change budgets and give the reason in the commit", name, size, kind, b.max))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(budgets)) {
		b, size := budgets[name], sizes[name]
		switch {
		case size == 0:
			faults = append(faults, fmt.Sprintf("%s: a budget of %d %s for nothing: delete the entry", name, b.max, kind))
		case general > 0 && size <= general:
			faults = append(faults, fmt.Sprintf("%s: %d %s are within the limit of %d: delete the entry", name, size, kind, general))
		case general > 0 && b.why == "":
			faults = append(faults, fmt.Sprintf("%s: the entry does not say why", name))
		case float64(b.max) > float64(size)*(1+slack):
			faults = append(faults, fmt.Sprintf("%s: %d %s (budget %d): lower the budget to what is left", name, size, kind, b.max))
		}
	}
	return faults
}

func TestBudgets(t *testing.T) {
	tr := load(t)
	rooms, packages := codeLines(t, tr)
	methods, fields := typeSizes(tr)
	for _, name := range slices.Sorted(maps.Keys(rooms)) {
		t.Logf("%s: %d lines of code (budget %d)", name, rooms[name], budgets.rooms[name].max)
	}
	for _, faults := range [][]string{
		check("lines of code", rooms, budgets.rooms, 0),
		check("lines of code", packages, budgets.packages, maxLines),
		check("methods", methods, budgets.methods, maxMethods),
		check("fields", fields, budgets.fields, maxFields),
	} {
		for _, fault := range faults {
			t.Error(fault)
		}
	}
}

// TestCheckOfBudgets has a case for each way in which a size and a budget disagree.
func TestCheckOfBudgets(t *testing.T) {
	for _, c := range []struct {
		name    string
		size    int
		budget  *budget
		general int
		fails   bool
	}{
		{"within the limit", 100, nil, 100, false},
		{"over the limit", 101, nil, 100, true},
		{"at its budget", 120, &budget{120, "reason"}, 100, false},
		{"over its budget", 121, &budget{120, "reason"}, 100, true},
		{"without a reason", 120, &budget{120, ""}, 100, true},
		{"shrunk by little", 115, &budget{120, "reason"}, 100, false},
		{"shrunk by more", 114, &budget{120, "reason"}, 100, true},
		{"shrunk below the limit", 100, &budget{103, "reason"}, 100, true},
		{"gone", 0, &budget{103, "reason"}, 100, true},
		{"room without an entry", 5, nil, 0, true},
		{"room at its budget", 5, &budget{5, ""}, 0, false},
	} {
		sizes, listed := map[string]int{}, map[string]budget{}
		if c.size > 0 {
			sizes["x"] = c.size
		}
		if c.budget != nil {
			listed["x"] = *c.budget
		}
		if faults := check("lines", sizes, listed, c.general); (len(faults) > 0) != c.fails {
			t.Errorf("%s: %q", c.name, faults)
		}
	}
}

// codeLines counts the lines of code of each room with a budget and of each package.
func codeLines(t *testing.T, tr tree) (rooms, packages map[string]int) {
	t.Helper()
	rooms, packages = map[string]int{}, map[string]int{}
	for _, f := range tr.files {
		if f.test || slices.ContainsFunc(unbudgeted, func(room string) bool { return within(f.folder, room) }) {
			continue
		}
		n := linesOfCode(t, f)
		packages[f.folder] += n
		rooms[wing(f.folder)] += n
	}
	return rooms, packages
}

// wing returns the room of the map in ARCHITECTURE.md that a folder lies in.
func wing(folder string) string {
	for _, name := range wings {
		if within(folder, name) {
			return name
		}
	}
	if within(folder, "internal") {
		return "ground"
	}
	return folder
}

// linesOfCode counts the lines of a file that a token stands on, or goes over.
func linesOfCode(t *testing.T, f file) int {
	t.Helper()
	source := repotest.Must(os.ReadFile("../../" + f.path))(t)
	var s scanner.Scanner
	lines := token.NewFileSet().AddFile(f.path, -1, len(source))
	s.Init(lines, source, nil, 0)
	count, last := 0, 0
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return count
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue
		}
		first, end := lines.Line(pos), lines.Line(pos+token.Pos(max(len(text), 1)-1))
		count += max(end-max(first-1, last), 0)
		last = end
	}
}

// typeSizes counts the methods and the fields of each type that is declared outside
// tests, by FOLDER.TYPE. An embedded field is one.
func typeSizes(tr tree) (methods, fields map[string]int) {
	methods, fields = map[string]int{}, map[string]int{}
	for _, f := range tr.files {
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					methods[f.folder+"."+receiver(d.Recv.List[0].Type)]++
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok {
						if of, ok := s.Type.(*ast.StructType); ok {
							fields[f.folder+"."+s.Name.Name] += of.Fields.NumFields()
						}
					}
				}
			}
		}
	}
	return methods, fields
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
