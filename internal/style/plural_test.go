package style_test

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// countedThings finds a number before the plural of a noun: "%d pods" reads
// "1 pods" of one.
var countedThings = regexp.MustCompile(`(\S+ )?(\S+ )?%(?:\[\d+\])?d ((?:[a-z]+ )?[a-z]+s)\b`)

// TestOneIsNotPlural: a text that counts things takes unit.Count, which knows the
// singular. Of a bound ("more than %d bytes") and of a total ("%d of %d runs") the
// noun is a plural in any case.
func TestOneIsNotPlural(t *testing.T) {
	tr := load(t)
	for _, f := range tr.files {
		if f.test || slices.ContainsFunc([]string{"bench", "examples", "experiments", "tools", "internal/style"}, func(room string) bool { return within(f.folder, room) }) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			s, err := strconv.Unquote(l.Value)
			if err != nil {
				return true
			}
			for _, m := range countedThings.FindAllStringSubmatch(s, -1) {
				if !pluralAnyway(m[1], m[2], m[3]) && exceptions[f.path+":"+m[3]] == "" {
					t.Errorf("%s: %q reads wrong of one: use unit.Count", tr.at(l.Pos()), m[0])
				}
			}
			return true
		})
	}
}

// pluralAnyway tells whether the words before a number, or those behind it, are
// such that the number is no count of one thing.
func pluralAnyway(before, last, things string) bool {
	first, second, two := strings.Cut(things, " ")
	if !two {
		second = first
	}
	verbs := []string{"is", "was", "has", "does", "needs", "leads", "serves", "as", "this", "its", "others", "ns"}
	return slices.Contains(verbs, first) || slices.Contains(verbs, second) ||
		first == "a" || slices.Contains([]string{"than ", "of ", "to "}, last) || last == "the " && before == "of " || last == "and " && before == "%d "
}
