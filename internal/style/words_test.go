package style_test

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// formerWords are those that readers of documents, examples and golden files do
// not meet any more, with what stands in their place. The table of the decoder
// (scenario/renamed.go) reads them.
var formerWords = []struct{ pattern, now string }{
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
	"scenario/testdata/former.yaml": "reads the former words",
}

// keptRuns are folders of runs that say what they said when they were flown.
var keptRuns = []string{"experiments/", "bench/kwok/", "internal/judge/testdata/format1/"}

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
		for _, w := range formerWords {
			if at := regexp.MustCompile(w.pattern).FindIndex(raw); at != nil {
				t.Errorf("%s:%d: %q is now called %s", path, 1+strings.Count(string(raw[:at[0]]), "\n"), strings.TrimSpace(string(raw[at[0]:at[1]])), w.now)
			}
		}
	}
	if seen < 50 {
		t.Errorf("only %d files were read", seen)
	}
}
