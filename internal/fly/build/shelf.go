// Package build runs the go command, and keeps what it makes: folders of executables with
// a record of what they were built of.
//
// It does not know what is built; packages release and program do.
package build

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// Errors of a shelf.
var (
	// ErrBusy says that another process is making the same thing.
	ErrBusy = errors.New("another process is making it")
	// ErrNoRoom says that the shelf's file system is full.
	ErrNoRoom = errors.New("no room")
	// ErrDamaged says that something is not as it was made.
	ErrDamaged = errors.New("damaged")
	// ErrFormat says that another version of windtunnel made something.
	ErrFormat = errors.New("made by another version of windtunnel")
)

// recordFormat is the version of records.
const recordFormat = 1

// Shelf is a folder with a folder for each thing that was built. A thing comes into it
// whole, by a rename, or not at all.
type Shelf struct {
	Folder string
	Record string // name of the file in each folder that says what is in it, such as plane.json
}

// UserFolder returns a folder of the cache of the user who runs windtunnel: NAME in
// windtunnel of XDG_CACHE_HOME or of ~/.cache.
func UserFolder(name string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache of %s: %w", name, err)
	}
	return filepath.Join(base, "windtunnel", name), nil
}

// Folders returns the folders of what there is, sorted.
func (s Shelf) Folders() (out []string, err error) {
	entries, err := os.ReadDir(s.Folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cache: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, filepath.Join(s.Folder, e.Name()))
		}
	}
	return out, nil
}

// Read reads the record of a folder into record, a pointer whose Product is product, and
// compares executables with it by size, not by sum.
func (s Shelf) Read(folder string, record any, product *Product) error {
	var saved struct {
		Format int `json:"format"`
	}
	raw, err := os.ReadFile(filepath.Join(folder, s.Record))
	if err == nil {
		err = json.Unmarshal(raw, &saved)
	}
	if err == nil && saved.Format != recordFormat {
		return fmt.Errorf("%s: %w: its format is %d, this version reads %d", folder, ErrFormat, saved.Format, recordFormat)
	}
	if err == nil {
		err = json.Unmarshal(raw, record)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w: %w", folder, ErrDamaged, err)
	case product.System != System:
		return fmt.Errorf("%s: %w: it was built for %s, this machine is %s", folder, ErrForeign, product.System, System)
	}
	product.Folder = folder
	for _, f := range product.Executables {
		info, err := os.Stat(filepath.Join(folder, f.Name))
		if err != nil {
			return fmt.Errorf("%s: %w: %w", folder, ErrDamaged, err)
		}
		if info.Size() != f.Bytes {
			return fmt.Errorf("%s: %w: %s has size %d, and had %d when it was made", folder, ErrDamaged, f.Name, info.Size(), f.Bytes)
		}
	}
	return nil
}

// Keep lets fill make something in a folder of its own and return its record, and takes
// that into the shelf in place of what has the same name. room is what it takes at most,
// in bytes. ErrBusy: another process does so now.
func (s Shelf) Keep(name string, room uint64, fill func(folder string) (record any, err error)) (err error) {
	const elsewhere = "set XDG_CACHE_HOME to a folder that can be written to"
	if err := os.MkdirAll(s.Folder, 0o700); err != nil {
		return namedIfFull(fmt.Errorf("make the cache: %w: %s", err, elsewhere))
	}
	lock, err := os.OpenFile(filepath.Join(s.Folder, "."+name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return namedIfFull(fmt.Errorf("lock the cache: %w: %s", err, elsewhere))
	}
	defer lock.Close()
	if err := kernel.Lock(lock); err != nil {
		return fmt.Errorf("%s: %w: run the command again when that has ended", name, ErrBusy)
	}
	making, old := filepath.Join(s.Folder, "."+name+".new"), filepath.Join(s.Folder, "."+name+".old")
	if err := errors.Join(os.RemoveAll(making), os.RemoveAll(old), os.Mkdir(making, 0o700)); err != nil { // a killed build leaves them
		return fmt.Errorf("clean the cache: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(making), os.RemoveAll(old)) }()
	if err := s.checkRoom(room); err != nil {
		return err
	}
	record, err := fill(making)
	if err == nil {
		err = s.save(making, record)
	}
	if err != nil {
		return namedIfFull(err)
	}
	made := filepath.Join(s.Folder, name)
	if err := os.Rename(made, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("replace what the cache has: %w", err)
	}
	return os.Rename(making, made)
}

// save writes the record of a folder, with its format.
func (s Shelf) save(folder string, record any) error {
	raw, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return err
	}
	format := fmt.Sprintf("{\n  \"format\": %d,", recordFormat)
	return os.WriteFile(filepath.Join(folder, s.Record), append([]byte(format), append(raw[1:], '\n')...), 0o600)
}

func (s Shelf) checkRoom(room uint64) error {
	space, err := kernel.Disk(s.Folder)
	if err != nil {
		return fmt.Errorf("how much room the cache has: %w", err)
	}
	if space.Free < room {
		return fmt.Errorf("%w in %s: %d MiB are free, and making it takes up to %d MiB: free some, or set XDG_CACHE_HOME to a folder with more",
			ErrNoRoom, s.Folder, space.Free>>20, room>>20)
	}
	return nil
}

// namedIfFull makes the error of a full file system ErrNoRoom, which says what to do.
func namedIfFull(err error) error {
	if !errors.Is(err, ErrNoRoom) && (errors.Is(err, syscall.ENOSPC) || isFull(err.Error())) {
		return fmt.Errorf("%w for the build: free some, or set GOCACHE, TMPDIR and XDG_CACHE_HOME to folders with more: %w", ErrNoRoom, err)
	}
	return err
}

// isFull tells what a program says where a file system is full.
func isFull(said string) bool { return strings.Contains(said, "no space left on device") }
