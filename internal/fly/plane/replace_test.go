package plane

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func releases(kubernetes, etcd string) release.Plane {
	return release.Plane{Kubernetes: kubernetes, Etcd: etcd}
}

func TestReplaceStartsAnotherRelease(t *testing.T) {
	s := newStandOf(t, "etcd-0", "etcd-1", "etcd-2", "kube-apiserver", "kube-scheduler")
	old, next := releases("v1.36.3", "v3.6.12"), releases("v1.37.1", "v3.7.0")
	for _, to := range []release.Plane{old, next, old} {
		for _, part := range []string{component.Etcd, component.APIServer, component.Scheduler} {
			var order []string
			repotest.NoError(t, ForEachProcess(t.Context(), s.plane, part, 0, func(c Component) error {
				order = append(order, c.Name)
				return c.Replace(t.Context(), to)
			}))
			if part == component.Etcd && strings.Join(order, " ") != "etcd-0 etcd-2 etcd-1" { // etcd-1 says that it leads
				t.Errorf("order %s", order)
			}
			for _, name := range order {
				c, _ := s.plane.Component(name)
				if got, err := c.ReportedRelease(t.Context()); err != nil || got != releaseOf(part, to) {
					t.Errorf("%s reports %s, %v", name, got, err)
				}
			}
		}
	}
	s.noDeath(t)
	if got, want := s.kinds(), strings.TrimSpace(strings.Repeat("term start ready ", 3*5)); got != want {
		t.Errorf("faults %q, want %q", got, want)
	}
}

// A process that does not come back is named with its last words, and one that comes back as
// something else with both releases.
func TestReplaceThatFails(t *testing.T) {
	s := newStandOf(t, "kube-apiserver-0", "kube-apiserver-1")
	s.is(t, "die")
	c, _ := s.plane.Component("kube-apiserver-0")
	var death *process.DeathError
	if err := c.Replace(t.Context(), releases("v1.37.1", "v3.7.0")); !errors.As(err, &death) || !strings.Contains(err.Error(), "told to die") {
		t.Errorf("dies: %v", err)
	}
	if c, _ := s.plane.Component("kube-apiserver-0"); !hasEnded(c.supervisor.currentProcess()) {
		t.Error("a process is left")
	}
	if c, _ := s.plane.Component("kube-apiserver-1"); hasEnded(c.supervisor.currentProcess()) {
		t.Error("the other one has ended")
	}
	s.noDeath(t)
	s.is(t, "ready")
	c.supervisor.commandFor = func(release.Plane) (string, []string) { return c.supervisor.spec.Path, s.arguments(c.Name, "v1.36.3") }
	if err := c.Replace(t.Context(), releases("v1.37.1", "v3.7.0")); !errors.Is(err, ErrRelease) || !strings.Contains(err.Error(), "it reports v1.36.3, and v1.37.1 was started") {
		t.Errorf("another release: %v", err)
	}
	foreign := Component{Name: "kube-apiserver"}
	if err := foreign.Replace(t.Context(), releases("v1.37.1", "v3.7.0")); !errors.Is(err, ErrNotOurs) {
		t.Errorf("not ours: %v", err)
	}
}

// The stand's etcd stores as an older release three questions after it was asked to.
func TestEtcdIsPreparedForAnOlderMinorRelease(t *testing.T) {
	s := newStandOf(t, "etcd-0", "etcd-1")
	for _, c := range []struct{ from, to, want string }{
		{"v3.6.12", "v3.5.24", "3.5"},
		{"v3.6.12", "v3.6.8", ""},  // the same minor release
		{"v3.5.24", "v3.4.30", ""}, // such an etcd is asked nothing
	} {
		for _, name := range []string{"etcd-0", "etcd-1"} {
			c1, _ := s.plane.Component(name)
			repotest.NoError(t, c1.Replace(t.Context(), releases("v1.36.3", c.from)))
		}
		repotest.NoError(t, AllowEtcdDowngrade(t.Context(), s.plane, c.to))
		var asked []string
		for _, name := range []string{"etcd-0", "etcd-1"} {
			c1, _ := s.plane.Component(name)
			var said struct{ Target string }
			repotest.NoError(t, askEtcd(t.Context(), c1, "target", nil, &said))
			asked = append(asked, said.Target)
		}
		if got := strings.Join(asked, " "); strings.TrimSpace(got) != c.want {
			t.Errorf("%s to %s: asked for %q, want %q of the first", c.from, c.to, got, c.want)
		}
	}
	if err := AllowEtcdDowngrade(t.Context(), s.plane, "3.5"); !errors.Is(err, ErrNoFault) {
		t.Errorf("no release: %v", err)
	}
}

func TestReleaseInMetrics(t *testing.T) {
	const line = `kubernetes_build_info{build_date="2026-10-14T18:32:01Z",git_commit="ab",git_version="v1.36.3",go_version="go1.26.8",major="1",minor="36"} 1`
	if got, err := releaseIn("# HELP x\nother{git_version=\"v0\"} 1\n" + line + "\n"); err != nil || got != "v1.36.3" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := releaseIn("other 1\n"); err == nil {
		t.Errorf("%q", got)
	}
}

// The flags of both releases are those that windtunnel gives them.
func TestCommandOfAnotherRelease(t *testing.T) {
	f := flight{run: programs{release: releases("v1.33.4", "v3.5.24")}, site: exampleSite()}
	for etcd, want := range map[string]bool{"v3.5.24": false, "v3.6.12": true, "v3.7.0": true} {
		to := releases("v1.36.3", etcd)
		to.Folder = t.TempDir()
		path, args := f.commandFor(component.Etcd)(to)
		if path != filepath.Join(to.Folder, release.Executable) || args[0] != component.Etcd {
			t.Errorf("%s %s", path, args[0])
		}
		if got := strings.Contains(fmt.Sprint(args), "InitialCorruptCheck"); got != want {
			t.Errorf("etcd %s: %s", etcd, args)
		}
	}
}
