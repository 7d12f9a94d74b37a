package subject

import (
	"context"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// shell returns how a shell is called that runs a text. No program is written: one that is
// still open for writing in a child of another test cannot be started.
func shell(text string) (path string, args []string) { return "/bin/sh", []string{"-c", text} }

func TestVersionOfAProgramThatLeavesAnother(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	path, args := shell("echo v1; echo more; sleep 8 & exit 0")
	if got := programVersion(t.Context(), path, args); got != "v1" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(begin); took > 6*time.Second {
		t.Errorf("waited %v for what the program left behind", took)
	}
}

func TestVersionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	path, args := shell("exec sleep 8")
	if got := programVersion(ctx, path, args); got != "" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("went on for %v", took)
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
