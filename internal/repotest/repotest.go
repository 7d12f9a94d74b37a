// Package repotest is what tests share: the root of the checkout, the program
// that `make build` leaves, other tools' files beside the checkout, golden files,
// traces, and waiting.
//
// It starts nothing; package plane does.
package repotest

import (
	"os"
	"path/filepath"
	"testing"
)

// Root returns the absolute path of the checkout, the folder that go.mod is in.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd() // a test runs in the folder of its package
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = up
	}
}

// Path returns the absolute path of a file of the checkout.
func Path(t testing.TB, parts ...string) string {
	t.Helper()
	return filepath.Join(append([]string{Root(t)}, parts...)...)
}

// Binary returns the absolute path of a windtunnel with a control plane beside it:
// the one that WINDTUNNEL_BIN names, or bin/windtunnel. A test that asks for it
// boots a real plane, so it is skipped under -short. Without the program it is
// skipped too, but in CI, where that is a failure.
func Binary(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("boots a real plane")
	}
	return programPath(t, "WINDTUNNEL_BIN", "windtunnel", "make build")
}

// Kubectl returns the absolute path of the kubectl that WINDTUNNEL_KUBECTL names, or
// that `make kubectl` left in bin. Tests that run it are skipped as those of Binary.
func Kubectl(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs kubectl")
	}
	return programPath(t, "WINDTUNNEL_KUBECTL", "kubectl", "make kubectl")
}

// programPath returns the absolute path of what a variable names, or of bin/name.
func programPath(t testing.TB, variable, name, target string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		path = Path(t, "bin", name)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no executable to test: %v", err)
		}
		t.Skipf("no executable to test (`%s` makes one, %s names another): %v", target, variable, err)
	}
	return path
}

// Compat returns the folder of another tool's own files, which lie beside the
// checkout and are no part of it; without it the test is skipped.
func Compat(t testing.TB, tool string) string {
	t.Helper()
	dir := filepath.Join(Root(t), "..", "shared", "compat", tool)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("the files of %s are not beside the checkout: %v", tool, err)
	}
	return dir
}
