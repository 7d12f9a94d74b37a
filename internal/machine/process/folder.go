package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// What begins the names of folders that Sweep looks after, beside those of runs.
const (
	UpPrefix     = "windtunnel-up-"
	HollowPrefix = "windtunnel-hollow-"

	newPrefix = ".windtunnel-new-" // a folder that is not yet locked
)

func folderPrefixes() []string { return []string{namePrefix, UpPrefix, HollowPrefix} }

// isOurs says whether a folder bears a name that Sweep looks after.
func isOurs(dir string) bool {
	return slices.ContainsFunc(folderPrefixes(), func(p string) bool { return strings.HasPrefix(filepath.Base(dir), p) })
}

// Folder is a private folder, mode 0700, of a verb that stays until it is ended. It
// has a ledger that names it, and is locked for as long as the process lives: when
// that is killed the next start removes it (Sweep).
type Folder struct {
	dir  string
	lock *os.File
}

// NewFolder makes a folder in base. Prefix is UpPrefix or HollowPrefix.
func NewFolder(base, prefix string) (*Folder, error) {
	dir, lock, err := lockedFolder(base, prefix)
	if err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, lock: lock}
	line, err := json.Marshal(entry{Dir: dir})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ledgerFile), append(line, '\n'), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make private folder: %w", err), f.Close())
	}
	return f, nil
}

// Dir returns the folder's path.
func (f *Folder) Dir() string { return f.dir }

// Close removes the folder.
func (f *Folder) Close() error { return errors.Join(removeFolder(f.dir), f.lock.Close()) }

// lockedFolder makes a folder that has its final name only once it is locked,
// so that a sweep of another process cannot take it for a stale one.
func lockedFolder(base, prefix string) (string, *os.File, error) {
	tmp, err := os.MkdirTemp(base, newPrefix)
	if err != nil {
		return "", nil, fmt.Errorf("make private folder: %w", err)
	}
	lock, err := lockFolder(tmp)
	if err != nil {
		return "", nil, errors.Join(err, os.Remove(tmp))
	}
	dir := filepath.Join(base, prefix+filepath.Base(tmp)[len(newPrefix):])
	if err := os.Rename(tmp, dir); err != nil {
		return "", nil, errors.Join(fmt.Errorf("make private folder: %w", err), os.Remove(tmp), lock.Close())
	}
	return dir, lock, nil
}

// lockFolder locks a folder without waiting. The kernel frees the lock when
// its holder ends.
func lockFolder(dir string) (*os.File, error) {
	file, err := kernel.LockFolder(dir)
	if err != nil {
		return nil, fmt.Errorf("lock folder %s: %w", dir, err)
	}
	return file, nil
}
