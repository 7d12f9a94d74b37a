package plane

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// programs says how each component is run.
type programs struct {
	kind     string // embedded or binaries
	reaper   string // executable that holds the reaper
	release  release.Plane
	versions map[string]string
}

const (
	kindEmbedded = "embedded" // of windtunnel's own build
	kindBinaries = "binaries"
	kindAttached = record.KindAttached
)

// findPrograms finds the components and their versions.
func findPrograms(ctx context.Context, cfg scenario.Plane, o Options) (programs, error) {
	p := programs{kind: kindEmbedded, reaper: o.Executable}
	if o.Executable == "" {
		path, err := os.Executable()
		if err != nil {
			return p, fmt.Errorf("find own executable: %w", err)
		}
		p.reaper = path
	}
	if err := errors.Join(kernel.Require("a control plane that windtunnel starts"), CheckPrograms(cfg, o.BaseDir)); err != nil {
		return p, err
	}
	var err error
	if cfg.Binaries != "" {
		p.kind, p.release = kindBinaries, release.Plane{Product: build.Product{Folder: binariesFolder(cfg, o.BaseDir)}}
		p.versions, err = askVersions(ctx, p.release)
		return p, err
	}
	if p.release, err = release.Find(release.Wanted{Kubernetes: cfg.Release, Etcd: cfg.Etcd}, p.reaper); err == nil {
		p.versions, err = p.release.Versions(), p.release.Sum()
	}
	return p, err
}

// buildFact says what a plane was built of; nil of programs that windtunnel knows
// nothing of.
func buildFact(p release.Plane) *record.BuildFact {
	if len(p.Executables) == 0 {
		return nil
	}
	out := &record.BuildFact{Go: p.Go, Flags: p.Flags, Modules: map[string]string{}, Executables: map[string]string{}}
	for _, m := range p.Modules {
		if strings.HasPrefix(m.Path, "k8s.io/") || strings.HasPrefix(m.Path, "go.etcd.io/") {
			out.Modules[m.Path] = m.Version + " " + m.Sum
		}
	}
	for _, f := range p.Executables {
		out.Executables[f.Name] = f.SHA256
	}
	return out
}

// CheckPrograms says which of the programs that a plane names are missing; base is the
// scenario's folder. It starts none.
func CheckPrograms(cfg scenario.Plane, base string) error {
	if cfg.Binaries == "" {
		return nil
	}
	return checkBinaries(binariesFolder(cfg, base))
}

func binariesFolder(cfg scenario.Plane, base string) string {
	if filepath.IsAbs(cfg.Binaries) {
		return cfg.Binaries
	}
	return filepath.Join(base, cfg.Binaries)
}

// checkBinaries finds which of the four components a folder lacks.
func checkBinaries(folder string) error {
	var faults []error
	for _, name := range component.Names() {
		path, _ := release.Plane{Product: build.Product{Folder: folder}}.Command(name)
		info, err := os.Stat(path)
		switch {
		case err != nil:
			_, err = os.Stat(filepath.Join(folder, name)) // what people have, unless windtunnel built it
			faults = append(faults, fmt.Errorf("binaries: %s is missing: %w", name, err))
		case info.IsDir() || info.Mode().Perm()&0o111 == 0:
			faults = append(faults, fmt.Errorf("binaries: %s is not executable", path))
		}
	}
	return errors.Join(faults...)
}

// askVersions runs every program with --version, all at once.
func askVersions(ctx context.Context, p release.Plane) (map[string]string, error) {
	names := component.Names()
	versions, faults := make([]string, len(names)), make([]error, len(names))
	var all guard.Group
	for i, name := range names {
		all.Go(func() { versions[i], faults[i] = askVersion(ctx, p, name) })
	}
	all.Wait()
	out := map[string]string{}
	for i, name := range names {
		switch name {
		case component.APIServer:
			out["kubernetes"] = versions[i]
		default:
			out[name] = versions[i]
		}
	}
	for _, name := range []string{component.Scheduler, component.ControllerManager} {
		if out[name] == out["kubernetes"] { // the usual case: one release
			delete(out, name)
		}
	}
	return out, errors.Join(faults...)
}

func askVersion(ctx context.Context, p release.Plane, name string) (string, error) {
	path, args := p.Command(name)
	cmd := exec.CommandContext(ctx, path, append(args, "--version")...)
	cmd.Env = ownEnvironment()
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, context.Cause(ctx))
	}
	if err != nil {
		first, _, _ := strings.Cut(string(out), "\n")
		return "", fmt.Errorf("ask %s for its version: %w: %s", path, err, first)
	}
	version, ok := versionIn(string(out))
	if !ok {
		return "", fmt.Errorf("ask %s for its version: answered %.100q", path, out)
	}
	return version, nil
}

// versionIn finds the version in "Kubernetes v1.37.1" or "etcd Version: 3.7.0".
func versionIn(text string) (string, bool) {
	v := regexp.MustCompile(`(?m)^(?:Kubernetes|etcd Version:) (v?\d+\.\d+\S*)`).FindStringSubmatch(text)
	if v == nil {
		return "", false
	}
	return v[1], true
}

// atLeast says whether a version is major.minor or newer.
func atLeast(version string, major, minor int) bool {
	f := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(f) < 2 {
		return false
	}
	a, errA := strconv.Atoi(f[0])
	b, errB := strconv.Atoi(f[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}
