package robust_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Bounds of a verb that reads a run directory, whatever is in it.
const (
	readTime   = 5 * time.Second // of CPU
	readFloor  = 256 << 20       // bytes, beside those that the verb takes for a small run
	readFactor = 5               // and so many for each byte of the directory
)

// ask runs a verb.
func ask(t *testing.T, bin string, args ...string) taken {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 12*readTime)
	defer cancel()
	c := exec.CommandContext(ctx, bin, args...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGQUIT) } // says where it hangs
	var said bytes.Buffer
	c.Stderr = &said
	u, err := measure(c)
	if u.exit < 0 || u.exit > 3 || strings.Contains(said.String(), "windtunnel has a fault") || strings.Contains(said.String(), "goroutine ") {
		t.Errorf("%q: %v: %s", args, err, said.String())
	}
	return u
}

// readers are the verbs that read a run directory; other is one that is sound.
func readers(dir, other, out string) [][]string {
	all := [][]string{
		{"judge", dir}, {"report", dir}, {"compare", "--html", filepath.Join(out, "compare.html"), other, "--", dir},
		{"history", "--file", filepath.Join(out, "history.json"), "--add", dir},
	}
	for _, format := range []string{"csv", "parquet", "openmetrics", "clusterloader2", "kube-burner"} {
		all = append(all, []string{"export", format, dir, "--out", filepath.Join(out, format)})
	}
	return append(all, []string{"export", "github", dir}, []string{"export", "grafana", dir})
}

// TestHostileRunDirectories opens each directory of the corpus with every verb that
// reads one, and holds what that takes. None of them passes whose records are not
// sound, and judge ends within a verdict or a fault.
func TestHostileRunDirectories(t *testing.T) {
	repotest.Robust(t)
	bin := repotest.Binary(t)
	sound := sooner(t)
	var base int64
	for _, args := range readers(string(sound), string(sound), t.TempDir()) {
		u := ask(t, bin, args...)
		base = max(base, u.memory)
	}
	asked, most := 0, taken{}
	for _, h := range reporttest.HostileRuns() {
		t.Run(h.Name, func(t *testing.T) {
			dir, _ := passing(t)
			outside := filepath.Join(t.TempDir(), "outside")
			repotest.NoError(t, errors.Join(os.WriteFile(outside, []byte("theirs"), 0o600), h.Make(dir, outside)))
			bound := base + readFloor + readFactor*sizeOf(t, dir)
			for _, args := range readers(string(dir), string(sound), t.TempDir()) {
				u := ask(t, bin, args...)
				asked++
				most.cpu, most.memory = max(most.cpu, u.cpu), max(most.memory, u.memory)
				if u.cpu > readTime || u.memory > bound {
					t.Errorf("%q took %v of CPU and %d MiB, more than %d", args[:2], u.cpu, u.memory>>20, bound>>20)
				}
				if args[0] == "judge" && (h.Judged != (u.exit < 3) || u.exit == 0 && !h.Sound) {
					t.Errorf("judge ends with %d", u.exit)
				}
			}
			if raw, err := os.ReadFile(outside); err != nil || string(raw) != "theirs" {
				t.Errorf("the file outside holds %.100q, %v", raw, err)
			}
		})
	}
	t.Logf("%d verbs on hostile directories: at most %v of CPU and %d MiB; %d MiB for a small run", asked, most.cpu, most.memory>>20, base>>20)
}

// sizeOf is how many bytes a directory takes on the disk.
func sizeOf(t *testing.T, dir record.Dir) (bytes int64) {
	t.Helper()
	repotest.NoError(t, filepath.WalkDir(string(dir), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			bytes += s.Blocks * 512
		}
		return err
	}))
	return bytes
}
