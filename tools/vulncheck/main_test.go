package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestCheck has a tree that calls vulnerable code, by the messages of a govulncheck
// that is a script.
func TestCheck(t *testing.T) {
	entries := t.TempDir()
	write(t, filepath.Join(entries, "GO-2026-0001.json"), `{"id": "GO-2026-0001", "modified": "2026-01-02T03:04:05Z", "affected": [{"package": {"name": "example.org/m"}}]}`)
	script := filepath.Join(t.TempDir(), "govulncheck")
	write(t, script, `#!/bin/sh
db=${2#file://}
grep -q '"path":"example.org/m","vulns":\[{"id":"GO-2026-0001"' $db/index/modules.json || exit 9
test -s $db/ID/GO-2026-0001.json && test -s $db/index/vulns.json && test -s $db/index/db.json || exit 9
cat <<'END'
{"config": {}}
{"finding": {"osv": "GO-2026-0002", "trace": [{"module": "example.org/n", "package": "example.org/n"}]}}
{"finding": {"osv": "GO-2026-0004", "fixed_version": "v1.26.9", "trace": [{"module": "stdlib", "version": "v1.26.8", "package": "net/http", "function": "Do"}, {"package": "example.org/ours", "function": "G"}]}}
{"finding": {"osv": "GO-2026-0001", "fixed_version": "v1.2.4", "trace": [{"module": "example.org/m", "version": "v1.2.3", "package": "example.org/m/p", "function": "F"}, {"package": "example.org/ours", "function": "G"}]}}
END
`)
	if err := os.Chmod(script, 0o700); err != nil {
		t.Fatal(err)
	}
	const called = "GO-2026-0001: example.org/ours calls example.org/m/p.F of example.org/m@v1.2.3 (fixed in v1.2.4)"
	for accepted, want := range map[string]string{
		"# none\n":                         called,
		"GO-2026-0001 the input is ours\n": "",
		"GO-2026-0001 the input is ours\nGO-2026-0003 nobody calls it\n":     "GO-2026-0003 is accepted and not called any more: take it off the list",
		"GO-2026-0002 it is only imported\nGO-2026-0001 the input is ours\n": "GO-2026-0002 is accepted and not called any more: take it off the list",
	} {
		file := filepath.Join(t.TempDir(), "accepted")
		write(t, file, accepted)
		wrong, toolchain, err := check(t.Context(), entries, file, []string{script, "./..."})
		if err != nil || strings.Join(wrong, "\n") != want {
			t.Errorf("%q: %q, %v", accepted, wrong, err)
		}
		if said := strings.Join(toolchain, "\n"); said != "GO-2026-0004: example.org/ours calls net/http.Do of stdlib@v1.26.8 (fixed in v1.26.9)" {
			t.Errorf("of the toolchain: %q", said)
		}
	}
	bare := filepath.Join(t.TempDir(), "bare")
	write(t, bare, "GO-2026-0001\n")
	if _, _, err := check(t.Context(), entries, bare, []string{script}); err == nil {
		t.Error("a vulnerability was accepted without a reason")
	}
	if _, _, err := check(t.Context(), t.TempDir(), os.DevNull, []string{script}); err == nil {
		t.Error("a folder without entries was taken")
	}
}

// TestInterrupted ends a check while govulncheck runs: no database is left.
func TestInterrupted(t *testing.T) {
	temporary, entries := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temporary)
	write(t, filepath.Join(entries, "GO-2026-0001.json"), `{"id": "GO-2026-0001", "modified": "2026-01-02T03:04:05Z"}`)
	runs, script := filepath.Join(t.TempDir(), "runs"), filepath.Join(t.TempDir(), "govulncheck")
	write(t, script, "#!/bin/sh\necho > "+runs+"\nexec sleep 600\n")
	if err := errors.Join(os.Chmod(script, 0o700), syscall.Mkfifo(runs, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, _, err := check(ctx, entries, os.DevNull, []string{script})
		ended <- err
	}()
	if _, err := os.ReadFile(runs); err != nil { // there is something to read once the script runs
		t.Fatal(err)
	}
	interrupt()
	if err := <-ended; err == nil {
		t.Error("it ended as if nothing had been found")
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOrderOfFindings has a vulnerability of a module that is in the standard library,
// too: whichever is told last, both are kept.
func TestOrderOfFindings(t *testing.T) {
	lines := []string{
		`{"finding": {"osv": "GO-2026-0001", "trace": [{"module": "stdlib", "version": "v1.26.8", "package": "net/http", "function": "Do"}, {"package": "example.org/ours"}]}}`,
		`{"finding": {"osv": "GO-2026-0001", "trace": [{"module": "example.org/m", "version": "v1.2.3", "package": "example.org/m/p", "function": "F"}, {"package": "example.org/ours"}]}}`,
		`{"finding": {"osv": "GO-2026-0001", "trace": [{"module": "example.org/m", "version": "v1.2.3", "package": "example.org/m/p", "function": "A"}, {"package": "example.org/ours"}]}}`,
	}
	for first := range lines {
		turned := append(slices.Clone(lines[first:]), lines[:first]...)
		all, err := findings(strings.NewReader(strings.Join(turned, "\n")))
		if err != nil {
			t.Fatal(err)
		}
		if got := all.tree["GO-2026-0001"]; len(all.tree) != 1 || !strings.Contains(got, "example.org/m/p.A") {
			t.Errorf("from %d: of the tree %q", first, all.tree)
		}
		if got := all.toolchain["GO-2026-0001"]; len(all.toolchain) != 1 || !strings.Contains(got, "net/http.Do") {
			t.Errorf("from %d: of the toolchain %q", first, all.toolchain)
		}
	}
}
