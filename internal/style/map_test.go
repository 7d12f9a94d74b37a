package style_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// namedPath finds what ARCHITECTURE.md names of the tree: a path, a folder, which ends with a
// slash, or a file by its name alone.
var namedPath = regexp.MustCompile(`[\w.*-]*[\w*](?:/[\w*.-]*[\w*])*(?:/|\.(?:go|trace|tmpl|ts|md)\b)|[\w.-]+(?:/[\w*.-]*[\w*])+`)

// notInTree is what reads like a path of the tree and is none: a run directory's folder, what
// others have made, what a build leaves.
var notInTree = []string{"HTTP/", "k8s.io/", "profiles/"}

// TestMapNamesWhatIsThere holds that each file and folder that ARCHITECTURE.md names exists:
// a path from the root, or what some path ends with. A star stands for any part of a name,
// NAME and VERB for any name.
func TestMapNamesWhatIsThere(t *testing.T) {
	raw := repotest.Must(os.ReadFile("../../ARCHITECTURE.md"))(t)
	there := pathsOf(t)
	seen := 0
	for i, line := range strings.Split(string(raw), "\n") {
		for _, name := range namedPath.FindAllString(line, -1) {
			if slices.Contains(notInTree, name) {
				continue
			}
			seen++
			if !isThere(there, name) {
				t.Errorf("ARCHITECTURE.md:%d names %s, which is not there", i+1, name)
			}
		}
	}
	if seen < 300 {
		t.Errorf("only %d names were found: the expression is broken", seen)
	}
}

// isThere says whether a path is that name, or ends with it.
func isThere(paths map[string]bool, name string) bool {
	name = strings.Trim(name, "/")
	if paths[name] {
		return true
	}
	pattern := strings.NewReplacer(".", `\.`, "*", "[^/]*", "NAME", "[^/]+", "VERB", "[^/]+").Replace(name)
	if pattern == strings.ReplaceAll(name, ".", `\.`) {
		return false
	}
	whole := regexp.MustCompile("^" + pattern + "$")
	for path := range paths {
		if whole.MatchString(path) {
			return true
		}
	}
	return false
}

// pathsOf returns the files and folders of the tree, each also by every end of its path.
func pathsOf(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	repotest.NoError(t, filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "node_modules", "runs", "dist"}, d.Name()) {
			return filepath.SkipDir
		}
		rel := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
		for out[rel] = true; strings.Contains(rel, "/"); out[rel] = true {
			_, rel, _ = strings.Cut(rel, "/")
		}
		return nil
	}))
	return out
}

// TestCheckOfMap has a case for each form of a name.
func TestCheckOfMap(t *testing.T) {
	paths := map[string]bool{"planes/vm/vm.go": true, "vm/vm.go": true, "vm.go": true, "internal": true}
	for name, want := range map[string]bool{
		"planes/vm/vm.go": true, "vm.go": true, "planes/NAME/NAME.go": true, "*m.go": true, "internal/": true,
		"planes/vm/v.go": false, "m.go": false, "NAME/VERB/x.go": false, "*n.go": false,
	} {
		if got := isThere(paths, name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
