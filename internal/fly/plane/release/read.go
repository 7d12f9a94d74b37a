package release

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/windtunnel/windtunnel/internal/fly/plane/component"
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

// Read returns the plane in a folder. Versions are those of the modules that Go has
// written into the executables; none of them is started.
func Read(folder string) (Plane, error) {
	p := Plane{Folder: folder}
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
	}
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

// moduleVersion returns the version of a module in an executable; empty: it is not there.
func moduleVersion(info *debug.BuildInfo, module string) string {
	for _, m := range info.Deps {
		if m.Path == module {
			return m.Version
		}
	}
	return ""
}
