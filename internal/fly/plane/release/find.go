package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrAbsent says that there is no such control plane to start.
var ErrAbsent = errors.New("no control plane to start")

// Wanted says which plane is to be started. Empty names leave the choice to windtunnel.
type Wanted struct{ Kubernetes, Etcd string }

// command returns the command that builds a plane.
func (w Wanted) command() string {
	out := "windtunnel plane build " + w.Kubernetes
	if w.Kubernetes == "" {
		out += Default
	}
	if w.Etcd != "" {
		out += " --etcd " + w.Etcd
	}
	return out
}

// Beside returns the plane that stands beside the tool, an executable; not ok: none does.
func Beside(tool string) (k Kept, ok bool) {
	folder := filepath.Dir(tool)
	if _, err := os.Stat(filepath.Join(folder, Executable)); err != nil {
		return k, false
	}
	k.Plane, k.Err = Read(folder)
	return k, true
}

// Find finds a plane beside the tool, an executable, or in the user's cache. ErrAbsent:
// there is none.
func Find(w Wanted, tool string) (Plane, error) {
	var beside *Plane
	if k, ok := Beside(tool); ok {
		if k.Err != nil {
			return k.Plane, fmt.Errorf("%w: delete it, and run `%s`", k.Err, w.command())
		}
		beside = &k.Plane
	}
	if beside != nil && w == (Wanted{}) {
		return *beside, nil
	}
	cache, err := UserCache()
	if err != nil {
		return Plane{}, fmt.Errorf("%w: %s is not beside windtunnel, and %w", ErrAbsent, Executable, err)
	}
	kept, err := cache.List()
	if err != nil {
		return Plane{}, err
	}
	return choose(w, beside, kept)
}

// choose returns the plane that is wanted: the one beside the tool, or else one of the
// cache. Without a release it takes windtunnel's default release; without a release of
// etcd, the one that plane build takes for the release, or the only one that there is.
func choose(w Wanted, beside *Plane, kept []Kept) (Plane, error) {
	if beside != nil && fits(w, *beside) {
		return *beside, nil
	}
	var fitting []Plane
	for _, p := range usable(kept) {
		exact := w
		if exact.Kubernetes == "" {
			exact.Kubernetes = Default
		}
		if fits(exact, p) {
			fitting = append(fitting, p)
		}
	}
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) > 1:
		return chooseByEtcd(fitting)
	}
	for _, k := range kept { // what cannot be started says why
		if k.Err != nil && strings.Contains(filepath.Base(k.Folder), folderPrefix(w)) {
			return Plane{}, fmt.Errorf("%w: run `%s --again`", k.Err, w.command())
		}
	}
	what := Executable + " is neither beside windtunnel nor in its cache"
	if w.Kubernetes != "" {
		what = "Kubernetes " + w.Kubernetes
		if w.Etcd != "" {
			what += " with etcd " + w.Etcd
		}
		what += " is neither beside windtunnel nor in its cache"
	}
	return Plane{}, fmt.Errorf("%w: %s: run `%s`, or give binaries: or --kubeconfig", ErrAbsent, what, w.command())
}

// fits says whether a plane is the one that is wanted.
func fits(w Wanted, p Plane) bool {
	return (w.Kubernetes == "" || w.Kubernetes == p.Kubernetes) && (w.Etcd == "" || w.Etcd == p.Etcd)
}

// folderPrefix begins the names of the folders of a release.
func folderPrefix(w Wanted) string {
	if w.Kubernetes == "" {
		w.Kubernetes = Default
	}
	return "kubernetes-" + w.Kubernetes + "_etcd-" + w.Etcd
}

// chooseByEtcd chooses among planes of one release of Kubernetes.
func chooseByEtcd(fitting []Plane) (Plane, error) {
	var names []string
	for _, p := range fitting {
		names = append(names, p.Etcd)
	}
	if kubernetes, ok := parseVersion(fitting[0].Kubernetes); ok {
		if usual, err := chooseEtcd(kubernetes, names); err == nil {
			for _, p := range fitting {
				if p.Etcd == usual {
					return p, nil
				}
			}
		}
	}
	return Plane{}, fmt.Errorf("the cache has Kubernetes %s with etcd %s: name one of them as plane.etcd", fitting[0].Kubernetes, strings.Join(names, " and "))
}
