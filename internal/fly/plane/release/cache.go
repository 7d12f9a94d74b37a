package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// Errors of the cache.
var (
	// ErrBusy says that another process is making the same plane.
	ErrBusy = errors.New("another process is making it")
	// ErrNoRoom says that the cache's file system is full.
	ErrNoRoom = errors.New("no room")
	// ErrDamaged says that a plane is not as it was made.
	ErrDamaged = errors.New("damaged")
	// ErrFormat says that another version of windtunnel made a plane.
	ErrFormat = errors.New("made by another version of windtunnel")
)

// Cache is a folder of planes, one folder each. A plane comes into it whole, by a rename,
// or not at all.
type Cache struct{ folder string }

// OpenCache returns the cache in a folder, which need not exist.
func OpenCache(folder string) Cache { return Cache{folder} }

// UserCache returns the cache of the user who runs windtunnel, in the folder
// windtunnel/planes of XDG_CACHE_HOME or of ~/.cache.
func UserCache() (Cache, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return Cache{}, fmt.Errorf("find the cache of planes: %w", err)
	}
	return Cache{filepath.Join(base, "windtunnel", "planes")}, nil
}

// recordFile is what the cache knows of a plane, beside its executables.
const recordFile = "plane.json"

// recordFormat is the version of recordFile.
const recordFormat = 1

type savedPlane struct {
	Format int `json:"format"`
	Plane
}

// Kept is a plane of the cache, or beside the tool. Err says why it cannot be started.
type Kept struct {
	Plane
	Err error
}

// folderOf returns the name of a plane's folder.
func folderOf(kubernetes, etcd, system string) string {
	return fmt.Sprintf("kubernetes-%s_etcd-%s_%s", kubernetes, etcd, strings.ReplaceAll(system, "/", "-"))
}

// List returns the planes of the cache, sorted by folder.
func (c Cache) List() ([]Kept, error) {
	entries, err := os.ReadDir(c.folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the cache of planes: %w", err)
	}
	var out []Kept
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			p, err := readKept(filepath.Join(c.folder, e.Name()))
			out = append(out, Kept{p, err})
		}
	}
	return out, nil
}

// readKept reads a plane of the cache. It looks at sizes, not at sums.
func readKept(folder string) (Plane, error) {
	saved := savedPlane{Plane: Plane{Folder: folder}}
	raw, err := os.ReadFile(filepath.Join(folder, recordFile))
	if err == nil {
		err = json.Unmarshal(raw, &saved)
	}
	switch {
	case err != nil:
		return saved.Plane, fmt.Errorf("%s: %w: %w", folder, ErrDamaged, err)
	case saved.Format != recordFormat:
		return saved.Plane, fmt.Errorf("%s: %w: its format is %d, this version reads %d", folder, ErrFormat, saved.Format, recordFormat)
	case saved.System != thisSystem:
		return saved.Plane, fmt.Errorf("%s: %w: it was built for %s, this machine is %s", folder, ErrForeign, saved.System, thisSystem)
	}
	for _, f := range saved.Executables {
		info, err := os.Stat(filepath.Join(folder, f.Name))
		if err != nil {
			return saved.Plane, fmt.Errorf("%s: %w: %w", folder, ErrDamaged, err)
		}
		if info.Size() != f.Bytes {
			return saved.Plane, fmt.Errorf("%s: %w: %s has size %d, and had %d when it was made", folder, ErrDamaged, f.Name, info.Size(), f.Bytes)
		}
	}
	return saved.Plane, nil
}

// keep lets fill make a plane in a folder of its own and takes that into the cache in
// place of one of the same name. ErrBusy: another process does so now.
func (c Cache) keep(name string, fill func(folder string) (Plane, error)) (p Plane, err error) {
	if err := os.MkdirAll(c.folder, 0o700); err != nil {
		return p, fmt.Errorf("make the cache of planes: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(c.folder, "."+name+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return p, fmt.Errorf("lock the cache of planes: %w", err)
	}
	defer lock.Close()
	if err := kernel.Lock(lock); err != nil {
		return p, fmt.Errorf("%s: %w: run the command again when that has ended", name, ErrBusy)
	}
	making, old := filepath.Join(c.folder, "."+name+".new"), filepath.Join(c.folder, "."+name+".old")
	if err := errors.Join(os.RemoveAll(making), os.RemoveAll(old), os.Mkdir(making, 0o700)); err != nil { // a killed build leaves them
		return p, fmt.Errorf("clean the cache of planes: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(making), os.RemoveAll(old)) }()
	if err := c.checkRoom(); err != nil {
		return p, err
	}
	if p, err = fill(making); err != nil {
		return p, namedIfFull(err)
	}
	if err := save(making, p); err != nil {
		return p, namedIfFull(err)
	}
	p.Folder = filepath.Join(c.folder, name)
	if err := os.Rename(p.Folder, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return p, fmt.Errorf("replace the plane of the cache: %w", err)
	}
	return p, os.Rename(making, p.Folder)
}

// save writes what the cache knows of a plane.
func save(folder string, p Plane) error {
	raw, err := json.MarshalIndent(savedPlane{recordFormat, p}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, recordFile), append(raw, '\n'), 0o600)
}

// roomForPlane is what a plane takes at most while it is made.
const roomForPlane = 1 << 29

func (c Cache) checkRoom() error {
	space, err := kernel.Disk(c.folder)
	if err != nil {
		return fmt.Errorf("how much room the cache of planes has: %w", err)
	}
	if space.Free < roomForPlane {
		return fmt.Errorf("%w in %s: %d MiB are free, and making a plane takes up to %d MiB: free some, or set XDG_CACHE_HOME to a folder with more",
			ErrNoRoom, c.folder, space.Free>>20, roomForPlane>>20)
	}
	return nil
}

// namedIfFull says what to do about a full file system.
func namedIfFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "no space left on device") {
		return fmt.Errorf("%w for the build: free some, or set GOCACHE, TMPDIR and XDG_CACHE_HOME to folders with more: %w", ErrNoRoom, err)
	}
	return err
}

// usable returns the planes that can be started.
func usable(all []Kept) []Plane {
	var out []Plane
	for _, k := range all {
		if k.Err == nil {
			out = append(out, k.Plane)
		}
	}
	return slices.Clip(out)
}
