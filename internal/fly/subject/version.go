package subject

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"time"
)

const (
	versionWithin = 5 * time.Second // for a program to print its version
	pipeWithin    = time.Second     // for what it has started, and left behind, to close its output
	maxVersion    = 4 << 10         // bytes of output that are kept
	maxHelp       = 256 << 10       // likewise, of a help
)

// HelpOf returns what a program prints for --help, at most 256 KiB; empty: nothing within
// five seconds. The program gets an empty folder and no environment but PATH and HOME.
func HelpOf(ctx context.Context, path string) (string, error) {
	folder, err := os.MkdirTemp("", "windtunnel-help-")
	if err != nil {
		return "", fmt.Errorf("make a folder: %w", err)
	}
	defer os.RemoveAll(folder)
	ctx, cancel := context.WithTimeout(ctx, versionWithin)
	defer cancel()
	out := beginning{max: maxHelp}
	cmd := exec.CommandContext(ctx, path, "--help")
	cmd.Dir, cmd.Env = folder, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, pipeWithin
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay) { // package flag exits with 2 in old programs
		return "", fmt.Errorf("%s --help: %w", path, err)
	}
	return string(out.text), nil
}

// programVersion says which version a program is: what it prints when it is called with
// these arguments, or what Go wrote into it; empty when neither says anything.
func programVersion(ctx context.Context, path string, args []string) string {
	if len(args) > 0 {
		ctx, cancel := context.WithTimeout(ctx, versionWithin)
		defer cancel()
		out := beginning{max: maxVersion}
		cmd := exec.CommandContext(ctx, path, args...)
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, pipeWithin
		if err := cmd.Run(); err == nil || errors.Is(err, exec.ErrWaitDelay) { // it has ended well, whatever it left behind
			first, _, _ := strings.Cut(strings.TrimSpace(string(out.text)), "\n")
			return first
		}
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	return buildText(info)
}

// beginning keeps the begin of what is written to it.
type beginning struct {
	max  int // bytes
	text []byte
}

// Write takes all of p and keeps what there is room for.
func (b *beginning) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), b.max-len(b.text))]...)
	return len(p), nil
}

// buildText writes what Go knows of a build: the module, its version and the commit.
func buildText(info *debug.BuildInfo) string {
	out := strings.TrimSpace(info.Main.Path + " " + info.Main.Version)
	if info.Main.Path == "" {
		out = info.Path
	}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			out += " " + s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			out += " with changes"
		}
	}
	return strings.TrimSpace(out + " " + info.GoVersion)
}
