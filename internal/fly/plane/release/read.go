package release

import (
	"fmt"
	"runtime/debug"

	"github.com/windtunnel/windtunnel/internal/component"
	"github.com/windtunnel/windtunnel/internal/fly/build"
)

// The modules whose versions are those of a plane.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
)

// Read returns the plane in a folder that windtunnel built. All facts but the sizes are
// those that Go has written into the executables; none of them is started.
func Read(folder string) (Plane, error) {
	p := Plane{Product: build.Product{Folder: folder, System: build.System}}
	for _, one := range []struct {
		component, module string
		version           *string
	}{{component.APIServer, kubernetesModule, &p.Kubernetes}, {component.Etcd, etcdModule, &p.Etcd}} {
		path, _ := p.Command(one.component)
		info, err := build.ReadInfo(path)
		if err != nil {
			return p, err
		}
		if *one.version = moduleVersion(info, one.module); *one.version == "" {
			return p, fmt.Errorf("%s: %w: it does not hold %s", path, build.ErrForeign, one.module)
		}
		if one.component == component.APIServer {
			p.SetCompiler(info)
		}
		p.AddModules(info)
		if err := p.AddFile(path); err != nil {
			return p, err
		}
	}
	return p, nil
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
