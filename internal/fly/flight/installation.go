package flight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/program"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// installation is what the scenario and its subjects need on the plane before
// anything else is done there.
type installation struct {
	definitions []subject.Object
	manifests   []subject.Object
	webhooks    map[string][]subject.Object // by subject: what has the API server call it
	owner       subject.Owner
	installer   *subject.Installer // nil before anything was installed
	closers
}

// readInstallation reads all files of objects, the scenario's own ones first, so
// that an error in one is known before anything is started. file is the
// scenario's.
func readInstallation(sc *scenario.Scenario, file string) (*installation, error) {
	in := installation{webhooks: map[string][]subject.Object{}}
	errs := []error{readObjects(sc, file, "crds", sc.CRDs, &in.definitions), readObjects(sc, file, "manifests", sc.Manifests, &in.manifests)}
	for i, x := range sc.Subjects {
		path := fmt.Sprintf("subjects[%d]", i)
		errs = append(errs, in.readBuilt(x))
		errs = append(errs, readObjects(sc, file, path+".crds", x.CRDs, &in.definitions), readObjects(sc, file, path+".manifests", x.Manifests, &in.manifests),
			in.readWebhooks(sc, file, path+".webhooks", x))
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
	return errors.Join(readPatterns(built, x.Build.CRDs, &in.definitions), readPatterns(built, x.Build.Manifests, &in.manifests))
}

// readWebhooks reads what has the API server call a subject: from files of the scenario's,
// and from the module that it is built from.
func (in *installation) readWebhooks(sc *scenario.Scenario, file, path string, x scenario.Subject) error {
	var all []subject.Object
	errs := []error{readObjects(sc, file, path, x.Webhooks, &all)}
	if x.Build != nil && len(x.Build.Webhooks) > 0 {
		if built, err := subject.FindBuilt(*x.Build); err == nil { // else compileSubjects says so
			errs = append(errs, readPatterns(built, x.Build.Webhooks, &all))
		}
	}
	for _, o := range all {
		errs = append(errs, subject.CheckWebhook(o))
	}
	if x.External && len(all) > 0 {
		errs = append(errs, fmt.Errorf("subject %s: webhooks: %w", x.Name, ErrNoCertificate))
	}
	if len(all) > 0 {
		in.webhooks[x.Name] = all
	}
	return errors.Join(errs...)
}

// ErrNoCertificate says that a program of others serves no webhooks.
var ErrNoCertificate = errors.New("a program that windtunnel does not start has no certificate of its: leave out `webhooks`")

// ErrFarWebhooks says that an API server cannot call a program on this machine.
var ErrFarWebhooks = errors.New("the API server of a cluster that windtunnel does not start cannot call a program on this machine: leave out `webhooks`, or run without --kubeconfig")

// checkWebhooks says whether the API server can call the subjects.
func (in *installation) checkWebhooks(ownsPlane bool) error {
	if names := slices.Sorted(maps.Keys(in.webhooks)); len(names) > 0 && !ownsPlane {
		return fmt.Errorf("subject %s: webhooks: %w", names[0], ErrFarWebhooks)
	}
	return nil
}

// readPatterns appends the objects of a module's files that patterns fit.
func readPatterns(built program.Program, patterns []string, to *[]subject.Object) error {
	var errs []error
	for _, pattern := range patterns {
		objects, err := subject.DecodeBuilt(built, pattern)
		errs = append(errs, err)
		*to = append(*to, objects...)
	}
	return errors.Join(errs...)
}

// readObjects appends the objects of files.
func readObjects(sc *scenario.Scenario, file, path string, names []string, to *[]subject.Object) error {
	var errs []error
	for i, name := range names {
		at := fmt.Sprintf("%s[%d]", path, i)
		raw, err := sc.ReadManifest(file, at, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		objects, err := subject.Decode(name, raw)
		if err == nil && len(objects) == 0 {
			err = fmt.Errorf("%s: %s has no objects", sc.PlaceOfList(file, at), name)
		}
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
func (in *installation) isEmpty() bool {
	return len(in.definitions)+len(in.manifests)+len(in.webhooks) == 0
}

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

// startServed starts a subject and has the API server call its webhooks: for conversions from
// the begin, since the subject itself may read objects in another version, for admission
// once it can answer.
func (in *installation) startServed(ctx context.Context, p *subject.Prepared) (fact record.SubjectFact, err error) {
	webhooks, err := p.RedirectWebhooks(in.webhooks[p.Name()])
	if err != nil {
		return fact, err
	}
	var admission []subject.Object
	for _, o := range webhooks {
		if !o.IsConversion() {
			admission = append(admission, o)
		} else if err := in.installer.Apply(ctx, []subject.Object{o}); err != nil {
			return fact, err
		}
	}
	if fact, err = p.Start(ctx); err == nil && len(admission) > 0 {
		err = in.installer.Apply(ctx, admission)
	}
	return fact, err
}
