package report_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The source passes its own tests, and the committed bundle is what it builds, so
// that nobody has to take it on trust.
func TestBundleIsBuiltFromItsSource(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("no npm found: in CI the bundle must be built from its source")
	}
	if err != nil {
		t.Skip("no npm found: the bundle is not compared with its source")
	}
	if testing.Short() {
		t.Skip("npm ci takes some seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	copySource(t, "../../../web", dir)
	run(t, dir, npm, "ci", "--no-audit", "--no-fund")
	run(t, dir, npm, "test")
	run(t, dir, npm, "run", "build", "--", "--outDir", filepath.Join(dir, "out"))
	for _, name := range []string{"report.js", "report.css"} {
		built := repotest.Must(os.ReadFile(filepath.Join(dir, "out", name)))(t)
		committed := repotest.Must(os.ReadFile(filepath.Join("bundle", name)))(t)
		if !bytes.Equal(built, committed) {
			t.Errorf("report/bundle/%s is not what web/ builds: run npm ci and npm run build in web/ and commit it", name)
		}
	}
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// copySource copies a folder without what npm and vite leave in it.
func copySource(t *testing.T, from, to string) {
	t.Helper()
	repotest.NoError(t, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "dist") {
			return filepath.SkipDir
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), content, 0o600)
	}))
}
