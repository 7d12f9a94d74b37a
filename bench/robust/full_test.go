package robust_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// disk is a file system in memory that can be filled.
type disk string

func newDisk(t *testing.T) disk {
	t.Helper()
	d := disk(t.TempDir())
	if err := unix.Mount("tmpfs", string(d), "tmpfs", 0, "size=256m"); err != nil {
		t.Skip("no file systems can be mounted here:", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(string(d), unix.MNT_DETACH) })
	return d
}

// leave resizes the disk: so many blocks are left.
func (d disk) leave(t *testing.T, blocks int) {
	t.Helper()
	var now unix.Statfs_t
	repotest.NoError(t, unix.Statfs(string(d), &now))
	used := (int64(now.Blocks) - int64(now.Bfree)) * now.Bsize
	repotest.NoError(t, unix.Mount("tmpfs", string(d), "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", used+int64(blocks)*now.Bsize)))
}

// files are all files of the disk.
func (d disk) files(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	repotest.NoError(t, filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[strings.TrimPrefix(path, string(d))] = raw
		return err
	}))
	return out
}

// TestDiskFullAtEveryWrite fills the disk at each block that a verb writes: each file is
// then what it was or what it was to be, none is half of it, and the verb says why.
func TestDiskFullAtEveryWrite(t *testing.T) {
	repotest.Robust(t)
	bin := repotest.Binary(t)
	from := pair(t)
	for name, args := range map[string][]string{
		"judge": {"judge", "run"}, "history": {"history", "--file", "history.json", "--add", "run"},
		"csv": {"export", "csv", "run", "--out", "out"}, "parquet": {"export", "parquet", "run", "--out", "out"},
		"openmetrics": {"export", "openmetrics", "run", "--out", "run.om"}, "clusterloader2": {"export", "clusterloader2", "run", "--out", "out"},
		"compare": {"compare", "--html", "compare.html", "run", "--", "other"},
	} {
		t.Run(name, func(t *testing.T) {
			room := newDisk(t)
			fill(t, room, from)
			before := room.files(t)
			if said, err := verbOn(bin, room, args); err != nil && !strings.Contains(err.Error(), "exit status 1") && !strings.Contains(err.Error(), "exit status 2") {
				t.Fatalf("with room: %v: %s", err, said)
			}
			after := room.files(t)
			refused, done := 0, false
			for blocks := 1; !done; blocks += 1 + blocks/8 {
				full := newDisk(t)
				fill(t, full, from)
				full.leave(t, blocks)
				said, err := verbOn(bin, full, args)
				var exit *exec.ExitError
				switch {
				case err == nil || errors.As(err, &exit) && exit.ExitCode() < 3:
					done = true
				case strings.Contains(said, "no space left"):
					refused++
				default:
					t.Errorf("%d blocks: %v: %s", blocks, err, said)
				}
				for name, is := range full.files(t) {
					if !bytes.Equal(is, before[name]) && !bytes.Equal(is, after[name]) {
						t.Errorf("%d blocks: %s has %d bytes; it had %d and was to have %d", blocks, name, len(is), len(before[name]), len(after[name]))
					}
				}
				repotest.NoError(t, unix.Unmount(string(full), 0))
				if blocks > 100_000 {
					t.Fatal("it never ends")
				}
			}
			t.Logf("%s on %d full disks, and on one with room", name, refused)
		})
	}
}

// pair is a run directory, and another one an hour before it, by their names.
func pair(t *testing.T) map[string]record.Dir {
	t.Helper()
	run, _ := passing(t)
	return map[string]record.Dir{"run": run, "other": sooner(t)}
}

// sooner is a run directory as passing makes it, of an hour before.
func sooner(t *testing.T) record.Dir {
	t.Helper()
	other, _ := passing(t)
	_, m, err := record.OpenDir(string(other))
	repotest.NoError(t, err)
	m.Started = m.Started.Add(-time.Hour)
	repotest.NoError(t, other.WriteJSON(record.ManifestFile, m))
	return other
}

// fill puts run directories on a disk.
func fill(t *testing.T, d disk, from map[string]record.Dir) {
	t.Helper()
	for name, dir := range from {
		repotest.NoError(t, os.CopyFS(filepath.Join(string(d), name), os.DirFS(string(dir))))
	}
}

// verbOn runs a verb in the disk's folder.
func verbOn(bin string, d disk, args []string) (said string, err error) {
	c := exec.Command(bin, args...)
	c.Dir = string(d)
	out, err := c.CombinedOutput()
	return string(out), err
}

const written = `scenario: written
preflight: {wait: 100ms, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread]}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Name }}'}}"}
namespaces: {count: 0}
steps:
- {name: fill, create: {body: map, namespace: default, count: 2000, pace: {constant: 2000}}}
- {name: hook, exec: {command: [sh, -c, "echo said"]}}
- {name: clear, delete: {step: fill, pace: {constant: 2000}}}
`

// TestDiskFullInARun flies on disks that are full after so many blocks, in a cluster in
// memory: the run ends with a reason or a verdict, cleans up, and judge reads
// what is there.
func TestDiskFullInARun(t *testing.T) {
	seed := repotest.Robust(t)
	bin := repotest.Binary(t)
	kubeconfig := hollowCluster(t, bin)
	file := filepath.Join(t.TempDir(), "written.yaml")
	repotest.NoError(t, os.WriteFile(file, []byte(written), 0o600))
	chance := rand.New(rand.NewPCG(seed, 5))
	counts := map[string]int{}
	for i := range 40 {
		d, blocks := newDisk(t), 1+i/2+chance.IntN(1+i) // a size of 0 would mean any
		d.leave(t, blocks)
		said, err := verbOn(bin, d, []string{"run", file, "--kubeconfig", kubeconfig, "--out", "run"})
		var exit *exec.ExitError
		code := 0
		if errors.As(err, &exit) {
			code = exit.ExitCode()
		}
		counts[fmt.Sprint("exit ", code)]++
		if code >= 2 && !strings.Contains(said, "no space left") || code < 0 || strings.Contains(said, "windtunnel has a fault") || strings.Contains(said, "left behind") {
			t.Errorf("%d blocks: exit %d: %s", blocks, code, said)
		}
		d.leave(t, 10_000)
		if _, _, err := record.OpenDir(filepath.Join(string(d), "run")); err == nil {
			counts["judged"]++
			// A run that ended with 3 could not even begin its records.
			if said, err := verbOn(bin, d, []string{"judge", "run"}); errors.As(err, &exit) && exit.ExitCode() > 2 && code < 3 {
				t.Errorf("%d blocks: judge: %v: %s", blocks, err, said)
			}
		}
		if said, err := verbOn(bin, d, []string{"clean", "--kubeconfig", kubeconfig, "--dry-run"}); err != nil || !strings.Contains(said, "nothing was left") {
			t.Errorf("%d blocks: clean: %v: %s", blocks, err, said)
		}
		repotest.NoError(t, unix.Unmount(string(d), 0))
	}
	t.Logf("seed %d: 40 runs on disks that fill up: %v", seed, counts)
}

// hollowCluster serves a cluster in memory until the test ends and returns its
// kubeconfig.
func hollowCluster(t *testing.T, bin string) string {
	t.Helper()
	c := exec.Command(bin, "hollow", "--clusters", "1")
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	repotest.NoError(t, err)
	t.Cleanup(func() { _ = c.Process.Signal(os.Interrupt); _ = c.Wait() })
	line := make([]byte, 4096)
	n, err := out.Read(line)
	path, ok := strings.CutPrefix(strings.TrimSpace(string(line[:n])), "export KUBECONFIG=")
	if err != nil || !ok {
		t.Fatalf("%v: %q", err, line[:n])
	}
	return path
}
