package repotest

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// update is the one flag for all that is generated and committed: golden files,
// traces and pages of reference.
var update = flag.Bool("update", false, "write golden files, traces and generated pages anew")

// Golden holds that a committed file is what the code makes now; under -update
// it is written first.
func Golden[T ~string | ~[]byte](t testing.TB, path string, got T) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == string(got) {
		return
	}
	was, is := strings.Split(string(want), "\n"), strings.Split(string(got), "\n")
	n := 0
	for n < min(len(was), len(is)) && was[n] == is[n] {
		n++
	}
	t.Errorf("%s differs from line %d on (go test -update writes it anew)\n got %s\nwant %s", path, n+1, firstLines(is[n:]), firstLines(was[n:]))
}

// firstLines returns the first of some lines, which are enough to see what changed.
func firstLines(lines []string) string {
	if len(lines) == 0 {
		return "the file's end"
	}
	return strings.Join(lines[:min(len(lines), 8)], "\n     ")
}

// GoldenPart is Golden for the part of a page between the comments "<!-- NAME -->" and
// "<!-- end of NAME -->".
func GoldenPart(t testing.TB, path, name, got string) {
	t.Helper()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), "<!-- "+name+" -->\n")
	_, after, ended := strings.Cut(rest, "<!-- end of "+name+" -->\n")
	if !found || !ended {
		t.Fatalf("%s has no part %q", path, name)
	}
	Golden(t, path, before+"<!-- "+name+" -->\n"+got+"<!-- end of "+name+" -->\n"+after)
}
