// Package program builds subjects from Go modules, and keeps them in a cache together with
// the YAML files of the module: definitions of its kinds, manifests, configuration.
//
// It starts no program; package subject does.
package program

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/scenario"
)

// Errors of finding.
var (
	// ErrAbsent says that the cache does not have a program.
	ErrAbsent = errors.New("it is not in the cache")
	// ErrNoFile says that a pattern of a scenario fits no file of a module.
	ErrNoFile = errors.New("no file of the module fits")
)

// Program is a main package of a module, as an executable.
type Program struct {
	build.Product
	Module      build.Module `json:"module"`
	Package     string       `json:"package"`               // from the module's root, such as ./cmd/manager
	Main        string       `json:"main,omitempty"`        // file that was compiled instead of a package of the module
	Definitions []string     `json:"definitions,omitempty"` // files with CustomResourceDefinitions, from the module's root
	Manifests   []string     `json:"manifests,omitempty"`   // files with other objects
}

// filesFolder holds the YAML files of the module, beside the executable.
const filesFolder = "module"

// Path returns the executable.
func (p Program) Path() string { return filepath.Join(p.Folder, p.Executables[0].Name) }

// Files returns the folder with the YAML files of the module.
func (p Program) Files() string { return filepath.Join(p.Folder, filesFolder) }

// Match returns the paths of the module's files that a pattern of path.Match fits.
func (p Program) Match(pattern string) ([]string, error) {
	found, err := fs.Glob(os.DirFS(p.Files()), pattern)
	if err == nil && len(found) == 0 {
		err = ErrNoFile
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %q: %w", p.Module.Path, p.Module.Version, pattern, err)
	}
	for i := range found {
		found[i] = filepath.Join(p.Files(), filepath.FromSlash(found[i]))
	}
	return found, nil
}

// Patterns returns patterns that together fit the files of a list, one for each folder.
func Patterns(files []string) (out []string) {
	for _, name := range files {
		out = append(out, path.Join(path.Dir(name), "*"+path.Ext(name)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Cache is a folder of programs.
type Cache struct{ shelf build.Shelf }

// OpenCache returns the cache in a folder, which need not exist.
func OpenCache(folder string) Cache {
	return Cache{build.Shelf{Folder: folder, Record: "program.json"}}
}

// UserCache returns the cache of the user who runs windtunnel, in the folder
// windtunnel/subjects of XDG_CACHE_HOME or of ~/.cache.
func UserCache() (Cache, error) {
	folder, err := build.UserFolder("subjects")
	return OpenCache(folder), err
}

// Kept is a program of the cache. Err says why it cannot be started.
type Kept struct {
	Program
	Err error
}

// List returns the programs of the cache, sorted by folder.
func (c Cache) List() (out []Kept, err error) {
	folders, err := c.shelf.Folders()
	for _, folder := range folders {
		p, err := c.read(folder)
		out = append(out, Kept{p, err})
	}
	return out, err
}

// Find returns a program of the cache. ErrAbsent, build.ErrDamaged and the like say which
// command makes it.
func (c Cache) Find(b scenario.Build) (Program, error) {
	main, err := b.ReadMain()
	if err != nil {
		return Program{}, fmt.Errorf("%s %s: %w", b.Module, b.Version, err)
	}
	p, err := c.read(filepath.Join(c.shelf.Folder, folderOf(b, main)))
	if errors.Is(err, os.ErrNotExist) {
		return p, fmt.Errorf("%s %s: %w: run `%s`", b.Module, b.Version, ErrAbsent, command(b))
	}
	if err != nil {
		return p, fmt.Errorf("%w: run `%s --again`", err, command(b))
	}
	return p, nil
}

// read reads a program of the cache. It looks at sizes, not at sums.
func (c Cache) read(folder string) (Program, error) {
	p := Program{Product: build.Product{Folder: folder}}
	err := c.shelf.Read(folder, &p, &p.Product)
	if err == nil && len(p.Executables) != 1 {
		err = fmt.Errorf("%s: %w: it does not have one executable", folder, build.ErrDamaged)
	}
	return p, err
}

// folderOf returns the name of a program's folder: readable, and for each module, version,
// package, text of the main package and system another one.
func folderOf(b scenario.Build, main []byte) string {
	key := sha256.Sum256([]byte(b.Module + "@" + b.Version + " " + b.PackagePath() + " " + build.System + string(main)))
	return fmt.Sprintf("%s-%s-%x", NameOf(b), b.Version, key[:4])
}

// NameOf returns the name of the executable that the go command makes of a package.
func NameOf(b scenario.Build) string {
	elements := strings.Split(path.Join(b.Module, b.PackagePath()), "/")
	name := elements[len(elements)-1]
	if len(elements) > 1 && len(name) > 1 && name[0] == 'v' && strings.Trim(name[1:], "0123456789") == "" { // of a major version
		name = elements[len(elements)-2]
	}
	return name
}

// command returns the command that builds a program.
func command(b scenario.Build) string {
	out := "windtunnel subject build " + b.Module + "@" + b.Version
	if b.PackagePath() != "." {
		out += " " + b.PackagePath()
	}
	if b.Main != "" {
		out += " --main " + filepath.Join(b.Folder, b.Main)
	}
	return out
}
