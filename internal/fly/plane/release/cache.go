package release

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/build"
)

// Cache is a folder of planes, one folder each.
type Cache struct{ shelf build.Shelf }

// OpenCache returns the cache in a folder, which need not exist.
func OpenCache(folder string) Cache {
	return Cache{build.Shelf{Folder: folder, Record: "plane.json"}}
}

// UserCache returns the cache of the user who runs windtunnel, in the folder
// windtunnel/planes of XDG_CACHE_HOME or of ~/.cache.
func UserCache() (Cache, error) {
	folder, err := build.UserFolder("planes")
	return OpenCache(folder), err
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
func (c Cache) List() (out []Kept, err error) {
	folders, err := c.shelf.Folders()
	for _, folder := range folders {
		p, err := c.read(folder)
		out = append(out, Kept{p, err})
	}
	return out, err
}

// read reads a plane of the cache. It looks at sizes, not at sums.
func (c Cache) read(folder string) (Plane, error) {
	p := Plane{Product: build.Product{Folder: folder}}
	err := c.shelf.Read(folder, &p, &p.Product)
	return p, err
}

// roomForPlane is what a plane takes at most while it is made.
const roomForPlane = 1 << 29

// keep takes the plane that fill makes in a folder into the cache.
func (c Cache) keep(name string, fill func(folder string) (Plane, error)) (p Plane, err error) {
	err = c.shelf.Keep(name, roomForPlane, func(folder string) (any, error) {
		p, err = fill(folder)
		return p, err
	})
	p.Folder = filepath.Join(c.shelf.Folder, name)
	return p, err
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
