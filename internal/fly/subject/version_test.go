package subject

import (
	"context"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// shell returns how a shell is called that runs a text. No program is written: one that is
// still open for writing in a child of another test cannot be started.
func shell(text string) (path string, args []string) { return "/bin/sh", []string{"-c", text} }

// openEnd returns a file that a program reads until the test ends.
func openEnd(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	repotest.NoError(t, syscall.Mkfifo(path, 0o600))
	end := repotest.Must(os.OpenFile(path, os.O_RDWR, 0))(t)
	t.Cleanup(func() {
		if err := end.Close(); err != nil {
			t.Error(err)
		}
	})
	return path
}

// TestVersionOfAProgramThatLeavesAnother would not end if it waited for what is left.
func TestVersionOfAProgramThatLeavesAnother(t *testing.T) {
	t.Parallel()
	path, args := shell("echo v1; echo more; cat " + openEnd(t) + " & exit 0")
	if got := programVersion(t.Context(), path, args); got != "v1" {
		t.Errorf("got %q", got)
	}
}

// TestVersionEndsWithItsContext would not end if the program did not.
func TestVersionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	path, args := shell("exec cat " + openEnd(t))
	if got := programVersion(ctx, path, args); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestVersionOfAProgramThatTalks(t *testing.T) {
	t.Parallel()
	path, args := shell("head -c 1000000 /dev/zero | tr '\\0' a")
	got := programVersion(t.Context(), path, args)
	if len(got) != maxVersion {
		t.Errorf("kept %d bytes", len(got))
	}
}

// A program that was made for another release of Kubernetes is said to be so, and only then.
func TestDoubtRelease(t *testing.T) {
	linked := func(path, version, replaced string) *debug.BuildInfo {
		m := &debug.Module{Path: path, Version: version}
		if replaced != "" {
			m.Replace = &debug.Module{Path: path, Version: replaced}
		}
		return &debug.BuildInfo{Deps: []*debug.Module{{Path: "k8s.io/klog/v2", Version: "v2.130.1"}, m}}
	}
	const client = "k8s.io/client-go"
	for _, c := range []struct {
		info        *debug.BuildInfo
		plane, want string
	}{
		{linked(client, "v0.33.3", ""), "v1.37.1", "made for Kubernetes 1.33 (k8s.io/client-go), and the plane is v1.37.1"},
		{linked(client, "v0.38.0", ""), "v1.37.1", "made for Kubernetes 1.38"},
		{linked(client, "v0.37.0", ""), "v1.37.1", ""},
		{linked(client, "v0.37.0", "v0.35.1"), "v1.37.1", "made for Kubernetes 1.35"},
		{linked(client, "v0.37.0", ""), "v1.37+", ""},
		{linked(client, "v0.0.0-20240101000000-abcdef", ""), "v1.37.1", ""}, // of no release
		{linked(client, "v0.33.3", ""), "", ""},
		{linked("example.org/client", "v0.33.3", ""), "v1.37.1", ""},
		{&debug.BuildInfo{}, "v1.37.1", ""},
	} {
		got := doubtRelease(releaseOf(c.info), c.plane)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v at %q: %q, want %q", c.info.Deps, c.plane, got, c.want)
		}
	}
}
