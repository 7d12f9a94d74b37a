package build

import (
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// ErrForeign says that a file is no executable for this machine.
var ErrForeign = errors.New("not for this machine")

// System is what executables for this machine run on, such as linux/amd64.
const System = runtime.GOOS + "/" + runtime.GOARCH

// Product is what a build has made.
type Product struct {
	Folder string `json:"-"`      // of the executables
	System string `json:"system"` // that it runs on, such as linux/amd64

	Go          string   `json:"go,omitempty"`      // that compiled it, such as go1.26.8
	Flags       []string `json:"flags,omitempty"`   // of the build, as Go has written them into the executable
	Modules     []Module `json:"modules,omitempty"` // that were linked, sorted
	Executables []File   `json:"executables"`
}

// File is one executable.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256,omitempty"` // in hexadecimal digits
}

// ReadInfo returns what Go has written into an executable for this machine.
func ReadInfo(path string) (*debug.BuildInfo, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrForeign, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if system := settings["GOOS"] + "/" + settings["GOARCH"]; system != System {
		return nil, fmt.Errorf("%s: %w: it was built for %s, this machine is %s", path, ErrForeign, system, System)
	}
	return info, nil
}

// AddModules adds the modules in an executable, with what replaced them.
func (p *Product) AddModules(info *debug.BuildInfo) {
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p.Modules = append(p.Modules, Module{m.Path, m.Version, m.Sum})
	}
	slices.SortFunc(p.Modules, func(a, b Module) int { return strings.Compare(a.Path+"@"+a.Version, b.Path+"@"+b.Version) })
	p.Modules = slices.Compact(p.Modules)
}

// SetCompiler takes the compiler, and flags and variables of the build such as
// -tags=notest, from an executable.
func (p *Product) SetCompiler(info *debug.BuildInfo) {
	p.Go, p.Flags = info.GoVersion, nil
	for _, s := range info.Settings {
		if !strings.HasPrefix(s.Key, "vcs") {
			p.Flags = append(p.Flags, s.Key+"="+s.Value)
		}
	}
}

// AddFile adds an executable unless it is known.
func (p *Product) AddFile(path string) error {
	name := filepath.Base(path)
	if slices.ContainsFunc(p.Executables, func(f File) bool { return f.Name == name }) {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	p.Executables = append(p.Executables, File{Name: name, Bytes: info.Size()})
	return nil
}

// Sum computes the SHA-256 of each executable. It reads them all, some 0.1 s for 100 MB.
func (p *Product) Sum() error {
	for i := range p.Executables {
		f := &p.Executables[i]
		sum, err := HashOf(filepath.Join(p.Folder, f.Name), sha256.New())
		if err != nil {
			return err
		}
		if f.SHA256 != "" && f.SHA256 != sum {
			return fmt.Errorf("%s: %w: its SHA-256 is %s, and %s when it was made", filepath.Join(p.Folder, f.Name), ErrDamaged, sum, f.SHA256)
		}
		f.SHA256 = sum
	}
	return nil
}

// SHA256Of returns the SHA-256 of a file in hexadecimal digits; empty: it cannot be read.
func SHA256Of(path string) string {
	sum, err := HashOf(path, sha256.New())
	if err != nil {
		return ""
	}
	return sum
}

// OwnSHA256 returns that of the executable of this process.
func OwnSHA256() string {
	if sum := SHA256Of("/proc/self/exe"); sum != "" { // of Linux: also where another has its path since
		return sum
	}
	path, err := os.Executable()
	if err != nil {
		return ""
	}
	return SHA256Of(path)
}

// HashOf returns the hash of a file in hexadecimal digits.
func HashOf(path string, h hash.Hash) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	if _, err := io.Copy(h, file); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
