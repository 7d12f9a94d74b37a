package style_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

type formerWord struct{ pattern, now string }

// formerWords are those that readers of documents, examples and golden files do
// not meet any more, with what stands in their place. The table of the decoder
// (scenario/renamed.go) reads them.
var formerWords = []formerWord{
	{`(?m)^ *(- )?lives:`, "lifecycles"},
	{`\bsli: life\b`, "lifecycle"},
	{`\blife: [a-z]+, phase:`, "lifecycle"},
	{`(?m)^ *gate:`, "preflight"},
	{`\bunclean\b`, "dirty"},
	{`(?m)^ *(- )?cool:`, "settle"},
	{`\bcoolFor\b`, "settleFor"},
	{`\b(are: gone|gone: true)\b`, "deleted"},
	{`(?i)\bcanar(y|ies)\b`, "probe write"},
	{`(?i)\brelays?\b`, "proxy"},
	{`(?i)\btorn\b`, "interrupted"},
	{`(?i)\b(untold|tamed?|wild)\b`, "inconclusive, winsorised, outlier"},
}

// otherMeanings are files whose use of such a word is another one, or that show
// the former words because these are what they are about.
var otherMeanings = map[string]string{
	"scenario/testdata/former.yaml":               "reads the former words",
	"examples/operators/argo-rollouts/parts.yaml": "names a field of Argo Rollouts",
}

// keptRuns are folders of runs, and of history, that keep the words of their time.
var keptRuns = []string{"experiments/", "docs/history/", "bench/kwok/", "internal/opinion/judge/testdata/format1/"}

// pageWords are former words of the report's and the live page's texts.
var pageWords = append([]formerWord{{`(?i)\blives\b`, "lifecycles"}, {`\b[Ll]ife\b`, "lifecycle"}}, formerWords...)

// TestWordsOfPages looks for former words in what the page's source says.
func TestWordsOfPages(t *testing.T) {
	seen := 0
	for _, pattern := range []string{"../../web/src/*.ts", "../../internal/opinion/report/*.tmpl"} {
		paths := repotest.Must(filepath.Glob(pattern))(t)
		for _, path := range paths {
			raw := repotest.Must(os.ReadFile(path))(t)
			seen++
			speaksToday(t, path, raw, pageWords)
		}
	}
	if seen < 10 {
		t.Errorf("only %d files were read", seen)
	}
}

// TestWordsOfHelp looks for former words in the texts of verbs and flags: every
// string of the command line's source.
func TestWordsOfHelp(t *testing.T) {
	paths := repotest.Must(filepath.Glob("../../cmd/windtunnel/*.go"))(t)
	seen := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		files := token.NewFileSet()
		file := repotest.Must(parser.ParseFile(files, path, nil, parser.SkipObjectResolution))(t)
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				seen++
				speaksToday(t, files.Position(text.Pos()).String(), []byte(text.Value), pageWords)
			}
			return true
		})
	}
	if seen < 500 {
		t.Errorf("only %d strings were read", seen)
	}
}

// speaksToday reports the first use of each former word.
func speaksToday(t *testing.T, where string, text []byte, words []formerWord) {
	t.Helper()
	for _, w := range words {
		if at := regexp.MustCompile(w.pattern).FindIndex(text); at != nil {
			t.Errorf("%s, line %d of it: %q is now called %s", where, 1+strings.Count(string(text[:at[0]]), "\n"), strings.TrimSpace(string(text[at[0]:at[1]])), w.now)
		}
	}
}

// TestWordsOfReaders looks for former words in what users read and copy.
func TestWordsOfReaders(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "ls-files", "README.md", "docs/*.md", "examples/*", "*.yaml", "*.golden", "*.txt").Output()
	if err != nil {
		t.Skipf("no checkout: %v", err)
	}
	seen := 0
	for _, path := range strings.Fields(string(out)) {
		kept := slices.ContainsFunc(keptRuns, func(folder string) bool { return strings.HasPrefix(path, folder) })
		if kept || otherMeanings[path] != "" {
			continue
		}
		raw, err := os.ReadFile("../../" + path)
		if err != nil {
			continue // moved in this working copy
		}
		seen++
		speaksToday(t, path, raw, formerWords)
	}
	if seen < 50 {
		t.Errorf("only %d files were read", seen)
	}
}

// TestPromisesHaveTests holds that each row of a table of promises in docs/reference/safety.md names
// a test that is there and that CI runs: one that needs WINDTUNNEL_ROBUST or a machine to
// itself is marked "(by hand)", and no row stands on such tests alone.
func TestPromisesHaveTests(t *testing.T) {
	raw := repotest.Must(os.ReadFile("../../docs/reference/safety.md"))(t)
	there, inCI := testsOf(load(t))
	name := regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+(?: \(by hand\))?`)
	rows, promises := 0, false
	for i, line := range strings.Split(string(raw), "\n") {
		for _, named := range name.FindAllString(line, -1) {
			test, byHand := strings.CutSuffix(named, " (by hand)")
			switch {
			case !there[test]:
				t.Errorf("docs/reference/safety.md:%d names %s, which is not there", i+1, test)
			case !byHand && !inCI[test]:
				t.Errorf("docs/reference/safety.md:%d: CI does not run %s: say (by hand) behind its name", i+1, test)
			}
		}
		if !strings.HasPrefix(line, "|") {
			promises = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "| "), "|")
		last := cells[len(cells)-1]
		switch {
		case strings.TrimSpace(last) == "held by":
			promises = true
		case promises && !strings.HasPrefix(line, "|---"):
			rows++
			held := slices.ContainsFunc(name.FindAllString(last, -1), func(test string) bool { return inCI[test] })
			if !held && !strings.Contains(last, ".txtar") {
				t.Errorf("docs/reference/safety.md:%d: no test that CI runs holds the promise %q", i+1, strings.TrimSpace(cells[0]))
			}
		}
	}
	if rows < 30 {
		t.Errorf("only %d promises were read", rows)
	}
}

// testsOf returns the names of all tests, and of those that CI runs: that call neither
// repotest.Robust nor repotest.Proof.
func testsOf(tr tree) (there, inCI map[string]bool) {
	there, inCI = map[string]bool{}, map[string]bool{}
	for _, f := range tr.files {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !f.test || fn.Recv != nil {
				continue
			}
			byHand := false
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && (s.Sel.Name == "Robust" || s.Sel.Name == "Proof") {
					x, ok := s.X.(*ast.Ident)
					byHand = byHand || ok && x.Name == "repotest"
				}
				return true
			})
			there[fn.Name.Name] = true
			inCI[fn.Name.Name] = inCI[fn.Name.Name] || !byHand
		}
	}
	return there, inCI
}
