package release

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

	"github.com/windtunnel/windtunnel/internal/component"
)

// The modules whose versions are those of a plane.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
)

// ErrForeign says that an executable is no plane for this machine.
var ErrForeign = errors.New("not a control plane for this machine")

// thisSystem is what executables for this machine run on.
const thisSystem = runtime.GOOS + "/" + runtime.GOARCH

// Read returns the plane in a folder that windtunnel built. All facts but the sizes are
// those that Go has written into the executables; none of them is started.
func Read(folder string) (Plane, error) {
	p := Plane{Folder: folder, System: thisSystem}
	for _, one := range []struct {
		component, module string
		version           *string
	}{{component.APIServer, kubernetesModule, &p.Kubernetes}, {component.Etcd, etcdModule, &p.Etcd}} {
		path, _ := p.Command(one.component)
		info, err := readBuild(path)
		if err != nil {
			return p, err
		}
		if *one.version = moduleVersion(info, one.module); *one.version == "" {
			return p, fmt.Errorf("%s: %w: it does not hold %s", path, ErrForeign, one.module)
		}
		if one.component == component.APIServer {
			p.Go, p.Flags = info.GoVersion, flagsIn(info)
		}
		p.Modules = append(p.Modules, modulesIn(info)...)
		if err := p.addFile(path); err != nil {
			return p, err
		}
	}
	slices.SortFunc(p.Modules, func(a, b Module) int { return strings.Compare(a.Path+"@"+a.Version, b.Path+"@"+b.Version) })
	p.Modules = slices.Compact(p.Modules)
	return p, nil
}

// readBuild returns what Go has written into an executable for this machine.
func readBuild(path string) (*debug.BuildInfo, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrForeign, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if system := settings["GOOS"] + "/" + settings["GOARCH"]; system != thisSystem {
		return nil, fmt.Errorf("%s: %w: it was built for %s, this machine is %s", path, ErrForeign, system, thisSystem)
	}
	return info, nil
}

// addFile adds an executable unless it is known.
func (p *Plane) addFile(path string) error {
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
func (p *Plane) Sum() error {
	for i := range p.Executables {
		f := &p.Executables[i]
		sum, err := hashOf(filepath.Join(p.Folder, f.Name), sha256.New())
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

// hashOf returns the hash of a file in hexadecimal digits.
func hashOf(path string, h hash.Hash) (string, error) {
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

// moduleVersion returns the version of a module in an executable; empty: it is not there.
func moduleVersion(info *debug.BuildInfo, module string) string {
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}

// modulesIn returns the modules in an executable, with what replaced them.
func modulesIn(info *debug.BuildInfo) (out []Module) {
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		out = append(out, Module{m.Path, m.Version, m.Sum})
	}
	return out
}

// flagsIn returns the flags and variables of a build, such as -tags=notest.
func flagsIn(info *debug.BuildInfo) (out []string) {
	for _, s := range info.Settings {
		if !strings.HasPrefix(s.Key, "vcs") {
			out = append(out, s.Key+"="+s.Value)
		}
	}
	return out
}
