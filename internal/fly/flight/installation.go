package flight

import (
	"context"
	"errors"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/scenario"
)

// installation is what the scenario and its subjects need on the plane before
// anything else is done there.
type installation struct {
	definitions []subject.Object
	manifests   []subject.Object
	owner       subject.Owner
	installer   *subject.Installer // nil before anything was installed
	closers
}

// readInstallation reads all files of objects, the scenario's own ones first, so
// that an error in one is known before anything is started. file is the
// scenario's.
func readInstallation(sc *scenario.Scenario, file string) (*installation, error) {
	var in installation
	errs := []error{readObjects(sc, file, sc.CRDs, &in.definitions), readObjects(sc, file, sc.Manifests, &in.manifests)}
	for _, x := range sc.Subjects {
		errs = append(errs, in.readBuilt(x))
		errs = append(errs, readObjects(sc, file, x.CRDs, &in.definitions), readObjects(sc, file, x.Manifests, &in.manifests))
	}
	return &in, errors.Join(errs...)
}

// readBuilt reads what a subject takes from the module that it is built from. If the cache
// does not have it, compileSubjects says so.
func (in *installation) readBuilt(x scenario.Subject) error {
	if x.Build == nil {
		return nil
	}
	built, err := subject.FindBuilt(*x.Build)
	if err != nil {
		return nil
	}
	var errs []error
	for _, list := range []struct {
		patterns []string
		to       *[]subject.Object
	}{{x.Build.CRDs, &in.definitions}, {x.Build.Manifests, &in.manifests}} {
		for _, pattern := range list.patterns {
			objects, err := subject.DecodeBuilt(built, pattern)
			errs = append(errs, err)
			*list.to = append(*list.to, objects...)
		}
	}
	return errors.Join(errs...)
}

// readObjects appends the objects of files.
func readObjects(sc *scenario.Scenario, file string, names []string, to *[]subject.Object) error {
	var errs []error
	for _, name := range names {
		raw, err := sc.ReadManifest(file, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		objects, err := subject.Decode(name, raw)
		errs = append(errs, err)
		*to = append(*to, objects...)
	}
	return errors.Join(errs...)
}

// missingKinds joins an error for each kind of the steps' objects, of their calls, or of
// stages, that nothing brings to a plane of the run's own. A subject may bring what it likes,
// and a cluster of the user's may have it.
func (in *installation) missingKinds(w *workload.Workload, acts stages.Set, o Options) error {
	if o.Kubeconfig != "" || len(w.Scenario.Subjects) > 0 {
		return nil
	}
	brought := in.defines()
	return errors.Join(w.Unserved(brought), acts.MissingKinds(brought.Lack))
}

// checkServed is missingKinds for a cluster of the user's: it is asked.
func (in *installation) checkServed(ctx context.Context, w *workload.Workload, resources *discovery.Cache) error {
	if len(w.Scenario.Subjects) > 0 {
		return nil
	}
	return w.CheckServed(ctx, resources, in.defines())
}

// defines are the kinds that it brings to the plane.
func (in *installation) defines() workload.Definitions {
	brought := workload.Definitions{}
	for _, object := range slices.Concat(in.definitions, in.manifests) {
		brought.Add(object.Body)
	}
	return brought
}

// isEmpty tells that there is nothing to install.
func (in *installation) isEmpty() bool { return len(in.definitions)+len(in.manifests) == 0 }

// installAll brings definitions and manifests to the plane.
func (in *installation) installAll(ctx context.Context, p *plane.Plane, c clock.Clock) error {
	client, err := wire.New(p.Endpoint(plane.Admin), wire.Options{UserAgent: "windtunnel-setup", Clock: c})
	if err != nil {
		return err
	}
	in.atEnd(func() { _ = client.Close() })
	in.installer = subject.NewInstaller(client, in.owner)
	if err := in.installer.Apply(ctx, in.definitions); err != nil {
		return err
	}
	return in.installer.Apply(ctx, in.manifests)
}
