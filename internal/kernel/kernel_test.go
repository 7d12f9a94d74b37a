package kernel

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequire(t *testing.T) {
	if err := requireOn("linux", "a plane"); err != nil {
		t.Errorf("on Linux: %v", err)
	}
	for system, want := range map[string]string{"darwin": "on macOS,", "windows": "on Windows,", "plan9": "on plan9,"} {
		err := requireOn(system, "starting a plane")
		if !errors.Is(err, ErrOnlyLinux) || !strings.HasPrefix(err.Error(), "starting a plane needs Linux; ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", system, err)
		}
	}
}

// A lock keeps a second holder out until the first one closes its file.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	for name, open := range map[string]func() (*os.File, error){
		"folder": func() (*os.File, error) { return LockFolder(dir) },
		"file": func() (*os.File, error) {
			file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
			if err != nil {
				return nil, err
			}
			if err := Lock(file); err != nil {
				return nil, errors.Join(err, file.Close())
			}
			return file, nil
		},
	} {
		first, err := open()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := open(); !errors.Is(err, ErrLocked) {
			t.Errorf("%s: the second lock: %v", name, err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		again, err := open()
		if err != nil {
			t.Fatalf("%s: after the first was closed: %v", name, err)
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
	}
}
