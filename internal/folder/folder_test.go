package folder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestRead: whatever stands in the place of a file is named, and not waited for.
func TestRead(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		repotest.NoError(t, err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	must(os.WriteFile(at("file"), []byte("text"), 0o600))
	must(os.WriteFile(at("large"), make([]byte, 2000), 0o600))
	must(os.Mkdir(at("sub"), 0o700))
	must(os.WriteFile(at("sub/deep"), []byte("deep"), 0o600))
	must(syscall.Mkfifo(at("pipe"), 0o600))
	must(os.Symlink("file", at("link")))
	must(os.Symlink(filepath.Join(filepath.Dir(dir), "other"), at("away")))
	must(os.Symlink("/dev/zero", at("device")))
	must(os.Symlink("ring", at("ring")))
	for _, c := range []struct {
		name, text, err string
		is              error
	}{
		{"file", "text", "", nil},
		{"sub/deep", "deep", "", nil},
		{"link", "text", "", nil},
		{"none", "", "none: no such file or directory in " + dir, fs.ErrNotExist},
		{"sub", "", "sub: not an ordinary file: it is a folder", ErrNotFile},
		{"pipe", "", "pipe: not an ordinary file: it is a pipe", ErrNotFile},
		{"away", "", "away: it leads out of the folder", ErrOutside},
		{"device", "", "device: it leads out of the folder", ErrOutside},
		{"../file", "", "../file: it leads out of the folder", ErrOutside},
		{"ring", "", "ring: too many levels of symbolic links", nil},
		{"large", "", "large has more than 1000 B", nil},
	} {
		raw, err := Read(dir, c.name, 1000)
		if c.err == "" && (err != nil || string(raw) != c.text) {
			t.Errorf("%s: %q, %v", c.name, raw, err)
		}
		if c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err) || c.is != nil && !errors.Is(err, c.is)) {
			t.Errorf("%s: %v, want %s", c.name, err, c.err)
		}
	}
	if _, err := Read(at("nowhere"), "file", 10); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
