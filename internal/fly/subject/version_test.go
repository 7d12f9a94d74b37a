package subject

import (
	"context"
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
