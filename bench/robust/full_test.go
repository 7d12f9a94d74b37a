package robust_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/judge"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// On a disk that is full at any moment of a judgement the files of before are whole,
// or those of now, and nothing half-written is left.
func TestDiskFullAtEveryWrite(t *testing.T) {
	repotest.Robust(t)
	from, _ := passing(t)
	before := map[string][]byte{}
	for _, name := range []string{record.VerdictFile, record.JUnitFile, record.SummaryFile, record.ReportFile} {
		raw, err := from.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		before[name] = raw
	}
	failed, done := 0, 0
	for blocks := 1; done == 0 && blocks < 2000; blocks += 2 {
		disk := t.TempDir()
		if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
			t.Skip("no file systems can be mounted here:", err)
		}
		t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
		dir := record.Dir(filepath.Join(disk, "run"))
		if err := os.CopyFS(string(dir), os.DirFS(string(from))); err != nil {
			t.Fatal(err)
		}
		var now unix.Statfs_t
		if err := unix.Statfs(disk, &now); err != nil {
			t.Fatal(err)
		}
		used := (int64(now.Blocks) - int64(now.Bfree)) * now.Bsize
		if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", used+int64(blocks)*now.Bsize)); err != nil {
			t.Fatal(err)
		}
		if _, err := judge.Write(string(dir)); err == nil {
			done++
		} else if failed++; !strings.Contains(err.Error(), "no space left") {
			t.Errorf("%d blocks: %v", blocks, err)
		}
		for name, was := range before {
			if raw, err := dir.Read(name); err != nil || !bytes.Equal(raw, was) {
				t.Errorf("%d blocks: %s has %d bytes, and had %d: %v", blocks, name, len(raw), len(was), err)
			}
		}
		left, _ := filepath.Glob(filepath.Join(string(dir), ".*.new"))
		if len(left) > 0 {
			t.Errorf("%d blocks: %v is left", blocks, left)
		}
		if err := unix.Unmount(disk, 0); err != nil {
			t.Fatal(err)
		}
	}
	if failed == 0 || done == 0 {
		t.Errorf("%d judgements failed, %d did not", failed, done)
	}
	t.Logf("%d judgements on full disks, and one with room", failed)
}
