package flight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/flight/steps"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/subject"
	"github.com/windtunnel/windtunnel/internal/subject/external"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrNoCaller says that a scenario has a subject that is external, and that
// nobody is there who could be it.
var ErrNoCaller = errors.New("it is external: only a program, such as a Go test, can fly this scenario")

// subjects is what a run knows of its subjects.
type subjects struct {
	definitions []subject.Object // of all subjects
	manifests   []subject.Object
	installer   *subject.Installer // nil before anything was installed
}

// stopGrace is how long a subject in the caller's process gets to end.
const stopGrace = 10 * time.Second

// adopt makes the process that started windtunnel one of the subjects: in place
// of the scenario's of that name, or as another.
func adopt(s *scenario.Scenario, name string) {
	if name == "" {
		return
	}
	for i := range s.Subjects {
		if x := &s.Subjects[i]; x.Name == name {
			*x = scenario.Subject{Name: name, External: true, Metrics: x.Metrics, Ready: scenario.Ready{Wait: x.Ready.Wait}, CRDs: x.CRDs, Manifests: x.Manifests}
			return
		}
	}
	s.Subjects = append(s.Subjects, scenario.Subject{Name: name, External: true, Metrics: &scenario.Metrics{}})
}

// watchCaller ends the run when the process that started windtunnel, or the
// subject in it, has ended.
func (r *run) watchCaller(ctx context.Context, cancel context.CancelCauseFunc) {
	if r.options.Caller == nil {
		return
	}
	name := "caller"
	for _, x := range r.scenario.Subjects {
		if x.External {
			name = x.Name
		}
	}
	select {
	case err := <-r.options.Caller.Ended():
		r.journal().Died(name, err)
		cancel(fmt.Errorf("%s died: %w", name, err))
	case <-ctx.Done():
	}
}

// compileSubjects reads all files of objects and looks for the programs, so that
// a fault is known before anything is started.
func (r *run) compileSubjects() error {
	var faults []error
	for _, x := range r.scenario.Subjects {
		if x.External && r.options.Caller == nil {
			faults = append(faults, fmt.Errorf("subject %s: %w", x.Name, ErrNoCaller))
		}
		if x.Command != "" {
			faults = append(faults, subject.Find(x, filepath.Dir(r.options.File)))
		}
		for _, set := range []struct {
			files []string
			to    *[]subject.Object
		}{{x.CRDs, &r.subjects.definitions}, {x.Manifests, &r.subjects.manifests}} {
			for _, file := range set.files {
				raw, err := r.scenario.ReadManifest(r.options.File, file)
				if err != nil {
					faults = append(faults, err)
					continue
				}
				objects, err := subject.Decode(file, raw)
				faults = append(faults, err)
				*set.to = append(*set.to, objects...)
			}
		}
	}
	return errors.Join(faults...)
}

// startSubjects installs what the subjects need, and starts them one after
// another. From then on their death ends the run.
func (r *run) startSubjects(ctx context.Context) error {
	if len(r.scenario.Subjects) == 0 {
		return nil
	}
	return r.step(ctx, "subjects", func() error {
		if err := r.install(ctx); err != nil {
			return err
		}
		warned := len(r.plane.Warnings())
		for i := range r.scenario.Subjects {
			if err := r.startSubject(ctx, r.scenario.Subjects[i]); err != nil {
				return err
			}
		}
		for _, w := range r.plane.Warnings()[warned:] {
			r.warn(w)
		}
		return r.dir.WriteJSON(record.ManifestFile, r.manifest)
	})
}

// install brings definitions and manifests to the plane.
func (r *run) install(ctx context.Context) error {
	if len(r.subjects.definitions)+len(r.subjects.manifests) == 0 {
		return nil
	}
	client, err := wire.New(r.plane.Endpoint(plane.Admin), wire.Options{UserAgent: "windtunnel-setup", Clock: r.clock})
	if err != nil {
		return err
	}
	r.atEnd(func() { _ = client.Close() })
	r.subjects.installer = subject.NewInstaller(client)
	if err := r.subjects.installer.Apply(ctx, r.subjects.definitions); err != nil {
		return err
	}
	return r.subjects.installer.Apply(ctx, r.subjects.manifests)
}

func (r *run) startSubject(ctx context.Context, x scenario.Subject) error {
	p, err := subject.Prepare(x, subject.Options{
		Plane: r.plane, Folder: filepath.Dir(r.options.File), LogDir: r.dir.File(record.LogFolder), Self: r.options.Versions["windtunnel"],
	})
	if err != nil {
		return err
	}
	var fact record.SubjectFact
	if x.External {
		fact, err = r.startCaller(ctx, p)
	} else {
		fact, err = p.Start(ctx)
	}
	if err != nil {
		return err
	}
	r.manifest.Subjects = append(r.manifest.Subjects, fact)
	return nil
}

// startCaller lets the process that started windtunnel be a subject.
func (r *run) startCaller(ctx context.Context, p *subject.Prepared) (record.SubjectFact, error) {
	c := r.options.Caller
	pid, err := c.Start(ctx, external.Start{Name: p.Name(), Kubeconfig: p.Kubeconfig, Metrics: p.MetricsURL})
	if err != nil {
		return record.SubjectFact{}, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	r.atEnd(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			r.log.Warn("a subject did not end", slog.String("subject", p.Name()), slog.Any("error", err))
		}
	})
	fact, unread, err := p.Joined(ctx, pid)
	if unread != nil {
		r.warn(fmt.Sprintf("only the CPU and memory of %s are measured: its metrics could not be read: %v", p.Name(), unread))
	}
	return fact, err
}

// awaitSubjects waits for what subjects are to have done before the run begins.
func (r *run) awaitSubjects(ctx context.Context) error {
	for _, x := range r.scenario.Subjects {
		if x.Ready.Wait == nil {
			continue
		}
		if err := r.step(ctx, "ready-"+x.Name, func() error { return steps.Wait{Step: "ready-" + x.Name, Spec: x.Ready.Wait}.Do(ctx, r.session()) }); err != nil {
			return fmt.Errorf("subject %s is not ready: %w", x.Name, err)
		}
	}
	return nil
}

// uninstall takes what was installed out of a cluster that goes on living; what
// was there before the run stays.
func (r *run) uninstall(ctx context.Context) {
	if r.subjects.installer == nil {
		return
	}
	if err := r.subjects.installer.Remove(ctx); err != nil {
		r.log.Warn("objects were left behind", slog.Any("error", err))
	}
}

// subjectSteps is how many steps of its own a run has for subjects.
func subjectSteps(s *scenario.Scenario) int {
	if len(s.Subjects) == 0 {
		return 0
	}
	n := 1
	for _, x := range s.Subjects {
		if x.Ready.Wait != nil {
			n++
		}
	}
	return n
}
