// Package release knows the control planes that windtunnel can start: releases of
// Kubernetes as executables. It finds them beside the tool and says of what they were
// built.
//
// It starts none of their components; package plane does.
package release

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/windtunnel/windtunnel/internal/fly/plane/component"
)

// Default is the release of Kubernetes that windtunnel flies unless a scenario names
// another. The module plane/ builds it.
const Default = "v1.37.1"

// Executable is the name of an executable that holds the components of a release. Its
// first argument names the component that it runs.
const Executable = "kube-plane"

// Plane is one release of Kubernetes as executables.
type Plane struct {
	Folder     string // of the executables
	Kubernetes string // such as v1.37.1
	Etcd       string // such as v3.7.0
}

// Command returns the executable of a component and its first arguments: an executable
// of the component's name, or else the one that holds several components.
func (p Plane) Command(name string) (path string, args []string) {
	path = filepath.Join(p.Folder, name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path, nil
	}
	return filepath.Join(p.Folder, Executable), []string{name}
}

// Versions returns the versions of kubernetes and etcd as the components report them.
func (p Plane) Versions() map[string]string {
	return map[string]string{"kubernetes": p.Kubernetes, component.Etcd: strings.TrimPrefix(p.Etcd, "v")}
}

// ErrAbsent says that there is no control plane to start.
var ErrAbsent = errors.New("no control plane to start")

// Find returns the plane beside the tool, an executable. ErrAbsent: there is none.
func Find(tool string) (Plane, error) {
	folder := filepath.Dir(tool)
	if _, err := os.Stat(filepath.Join(folder, Executable)); err != nil {
		return Plane{}, fmt.Errorf("%w: %s is not in %s: run `make build` in a checkout of windtunnel, or give binaries: or --kubeconfig", ErrAbsent, Executable, folder)
	}
	return Read(folder)
}
