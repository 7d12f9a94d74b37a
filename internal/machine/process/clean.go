package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kernel"
)

// cleanEntries ends and removes all that the entries name, in the order processes and what they
// started in sessions of its own,
// control groups, folders. What is gone already is no fault.
func cleanEntries(entries []entry) error {
	for _, e := range entries {
		if e.PID > 1 && sameBoot(e.Boot) {
			killGroup(e.PID, e.Start)
		}
	}
	for _, e := range entries {
		if e.PID > 1 && sameBoot(e.Boot) {
			awaitGone(e.PID, e.Start)
		}
	}
	for _, e := range entries {
		killMarked(e.Mark)
	}
	var faults []error
	for _, e := range slices.Backward(entries) { // a group goes before what it lies in
		if e.Cgroup != "" {
			faults = append(faults, removeCgroup(e.Cgroup))
		}
	}
	for _, e := range entries {
		if e.Dir != "" {
			faults = append(faults, removeFolder(e.Dir))
		}
	}
	return errors.Join(faults...)
}

// awaitGone waits until a killed process has ended, so that it writes nothing
// into a folder that is being removed.
func awaitGone(pid int, start uint64) {
	for range cleanWithin / (5 * time.Millisecond) {
		if !isAlive(pid, start) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// removeFolder removes a private folder, its ledger last: a folder without one
// is nobody's, and a removal that is cut off must be found by the next sweep.
func removeFolder(dir string) error {
	if !isOurs(dir) {
		return fmt.Errorf("remove folder %s: it is not one of windtunnel's", dir)
	}
	found, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	faults := []error{err}
	for _, e := range found {
		if e.Name() != ledgerFile {
			faults = append(faults, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return fmt.Errorf("remove folder %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// Sweep removes what runs left in the folders bases whose windtunnel and
// reaper were both killed, and Folders whose process was, and returns the folders
// that it removed. It touches only folders of this user that bear the name of one
// of ours, hold a ledger that names them, and are locked by nobody.
func Sweep(bases ...string) ([]string, error) {
	var removed []string
	var faults []error
	for _, base := range bases {
		for _, dir := range findFolders(base, folderPrefixes()...) {
			switch stale, err := sweepFolder(dir); {
			case err != nil:
				faults = append(faults, err)
			case stale:
				removed = append(removed, dir)
			}
		}
		sweepUnborn(base)
	}
	return removed, errors.Join(faults...)
}

// findFolders returns what in base bears a name that begins with a prefix. A base
// that is not there has none.
func findFolders(base string, prefixes ...string) (out []string) {
	entries, _ := os.ReadDir(base) // as far as it can be read
	for _, e := range entries {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(e.Name(), p) }) {
			out = append(out, filepath.Join(base, e.Name()))
		}
	}
	return out
}

// sweepUnborn removes empty folders whose maker was killed before it could write
// their ledger; a maker that lives needs a moment for that, not a minute.
func sweepUnborn(base string) {
	now := clock.Start().Epoch()
	for _, dir := range findFolders(base, append(folderPrefixes(), newPrefix)...) {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() && now.Sub(info.ModTime()) > time.Minute {
			_ = syscall.Rmdir(dir) // refused when it is not empty or not ours
		}
	}
}

// sweepFolder removes one folder if it is stale.
func sweepFolder(dir string) (bool, error) {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false, nil // gone by now, or not a folder of ours
	}
	if !kernel.IsOwn(info) || info.Mode().Perm() != 0o700 {
		return false, nil
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return false, nil // its windtunnel lives
	}
	defer lock.Close()
	ledger, err := os.Open(filepath.Join(dir, ledgerFile))
	if err != nil {
		return false, nil // not made by us
	}
	entries := readEntries(ledger)
	_ = ledger.Close() // it was only read
	if !slices.Contains(entries, entry{Dir: dir}) {
		return false, nil
	}
	return true, cleanEntries(entries)
}
