//go:build linux

package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// enter runs a program in a root of its own, with /proc and /dev as any container has them.
// $0 is the root, the rest is the program with its arguments.
const enter = `mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && exec env -i HOME=/ TMPDIR=/tmp "$(command -v chroot)" "$0" "$@"`

// An emptyRoot is a folder with an unpacked archive, /proc, /dev and /tmp, and nothing else: no
// shell, no C library, no Go, no make.
type emptyRoot struct{ folder string }

// unpack makes an empty root of this machine's archive in dist/. Without one the test is skipped.
func unpack(t *testing.T) emptyRoot {
	t.Helper()
	found, err := filepath.Glob("../../dist/windtunnel_*_linux_" + runtime.GOARCH + ".tar.gz")
	if err != nil || len(found) != 1 {
		t.Skipf("needs one archive of this machine, as `make release` leaves it in dist/: there are %q, %v", found, err)
	}
	root := emptyRoot{t.TempDir()}
	for _, folder := range []string{"proc", "dev", "tmp"} {
		if err := os.Mkdir(filepath.Join(root.folder, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if said, err := exec.CommandContext(t.Context(), "tar", "-xzf", found[0], "-C", root.folder, "--strip-components=1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if _, err := os.Stat(filepath.Join(root.folder, "kube-plane")); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the archive in dist/ was made with PLANES=no")
	}
	if said, code := root.enter(t, `mount -t proc proc "$0/proc"`); code != 0 {
		if os.Getenv("CI") == "true" { // before a release is published, say
			t.Fatalf("a process cannot have mounts of its own on this machine: %s", said)
		}
		t.Skipf("a process cannot have mounts of its own on this machine: %s", said)
	}
	return root
}

// run runs the tool of the root. When it ends, so does everything that it started.
func (r emptyRoot) run(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	return r.enter(t, enter, append([]string{"/windtunnel"}, args...)...)
}

// enter runs a script that has the root as $0, with mounts and processes of its own.
func (r emptyRoot) enter(t *testing.T, script string, args ...string) (said string, code int) {
	t.Helper()
	spaces := []string{"--mount", "--pid", "--fork", "--kill-child"}
	if os.Geteuid() != 0 {
		spaces = append(spaces, "--user", "--map-root-user")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "unshare", append(append(spaces, "sh", "-c", script, r.folder), args...)...)
	raw, err := c.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Skipf("cannot run unshare: %v", err)
	}
	return string(raw), c.ProcessState.ExitCode()
}

// judged says whether a run of the root has a verdict.
func (r emptyRoot) judged(t *testing.T, run string) {
	t.Helper()
	if raw, err := os.ReadFile(filepath.Join(r.folder, run, "verdict.json")); err != nil || !strings.Contains(string(raw), `"verdict"`) {
		t.Errorf("no verdict: %v\n%s", err, raw)
	}
}

// The archive needs nothing of a machine but its kernel: it boots its control plane, and
// gives a verdict, which on a busy machine may be "unknown".
func TestArchiveInEmptyRoot(t *testing.T) {
	root := unpack(t)
	for _, args := range [][]string{{"--version"}, {"plane", "list"}, {"examples", "density"}, {"validate", "density.yaml"}} {
		if said, code := root.run(t, args...); code != 0 {
			t.Errorf("%q: exit code %d\n%s", args, code, said)
		}
	}
	said, code := root.run(t, "demo", "--set", "nodes=5", "--set", "podsPerNode=2", "--set", "latencyPods=5", "--out", "/run")
	if code < 0 || code > 2 {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	root.judged(t, "run")
}

// TestProofFirstMinutes holds that a machine without Go, Node, make and git goes from the
// archive to the verdict of the demo in two minutes.
func TestProofFirstMinutes(t *testing.T) {
	if os.Getenv("WINDTUNNEL_ACCURACY") == "" {
		t.Skip("wants a quiet machine: set WINDTUNNEL_ACCURACY=1")
	}
	const bound = 120 * time.Second
	begin := time.Now()
	root := unpack(t)
	said, code := root.run(t, "demo", "--out", "/run")
	took := time.Since(begin)
	t.Logf("from the archive to the verdict: %.1f s, exit code %d\n%s", took.Seconds(), code, said)
	if code != 0 {
		t.Errorf("exit code %d", code)
	}
	if took > bound {
		t.Errorf("it took %v, more than %v", took, bound)
	}
	root.judged(t, "run")
}
