package subject

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// script writes a program of these lines of shell.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestVersionOfAProgramThatLeavesAnother(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	if got := programVersion(t.Context(), script(t, "echo v1; echo more; sleep 8 & exit 0"), []string{"--version"}); got != "v1" {
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
	if got := programVersion(ctx, script(t, "exec sleep 8"), []string{"--version"}); got != "" {
		t.Errorf("got %q", got)
	}
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("went on for %v", took)
	}
}

func TestVersionOfAProgramThatTalks(t *testing.T) {
	t.Parallel()
	got := programVersion(t.Context(), script(t, "head -c 1000000 /dev/zero | tr '\\0' a"), []string{"--version"})
	if len(got) != maxVersion {
		t.Errorf("kept %d bytes", len(got))
	}
}
