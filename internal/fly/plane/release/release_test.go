package release_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/build"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A component is run by its own executable where there is one, else by kube-plane.
func TestCommand(t *testing.T) {
	folder := t.TempDir()
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, component.Etcd), nil, 0o700))
	p := release.Plane{Product: build.Product{Folder: folder}}
	if path, args := p.Command(component.Etcd); path != filepath.Join(folder, component.Etcd) || len(args) != 0 {
		t.Errorf("etcd: %s %v", path, args)
	}
	if path, args := p.Command(component.Scheduler); path != filepath.Join(folder, release.Executable) || len(args) != 1 || args[0] != component.Scheduler {
		t.Errorf("scheduler: %s %v", path, args)
	}
}

func TestFindRefuses(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	own := repotest.Must(os.Executable())(t)
	empty, script, other := t.TempDir(), t.TempDir(), t.TempDir()
	repotest.NoError(t, errors.Join(os.WriteFile(filepath.Join(script, release.Executable), []byte("#!/bin/sh\n"), 0o700),
		os.Symlink(own, filepath.Join(other, release.Executable))))
	for _, c := range []struct {
		name, folder string
		is           error
		words        string
	}{
		{"nothing", empty, release.ErrAbsent, "windtunnel plane build v1."},
		{"a script", script, build.ErrForeign, "kube-plane"},
		{"another program", other, build.ErrForeign, "does not hold k8s.io/kubernetes"},
	} {
		if _, err := release.Find(release.Wanted{}, filepath.Join(c.folder, "windtunnel")); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// What Go wrote into the executable is what components say of themselves, and the
// default release is what plane/ builds.
func TestBuiltPlane(t *testing.T) {
	p := repotest.Must(release.Find(release.Wanted{}, repotest.Binary(t)))(t)
	if p.Kubernetes != release.Default {
		t.Errorf("plane/ builds %s, the default release is %s", p.Kubernetes, release.Default)
	}
	for _, flag := range []string{"-tags=" + release.BuildTags, "CGO_ENABLED=0", "-trimpath=true"} {
		if !slices.Contains(p.Flags, flag) {
			t.Errorf("make build compiles without %s: %v", flag, p.Flags)
		}
	}
	for _, name := range component.Names() {
		want := "Kubernetes " + p.Kubernetes
		if name == component.Etcd {
			want = "etcd Version: " + strings.TrimPrefix(p.Etcd, "v")
		}
		path, args := p.Command(name)
		said, err := exec.CommandContext(t.Context(), path, append(args, "--version")...).CombinedOutput()
		if first, _, _ := strings.Cut(string(said), "\n"); err != nil || first != want {
			t.Errorf("%s says %q, want %q: %v", name, first, want, err)
		}
	}
}
