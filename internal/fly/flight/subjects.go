package flight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/fly/flight/journal"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrNoCaller says that a scenario has a subject that is external, and that
// nobody is there who could be it.
var ErrNoCaller = errors.New("it is external: only a program, such as a Go test, can fly this scenario")

// subjects are those of the scenario.
type subjects struct {
	options Options
	stamp   object.Stamp // of what the load makes, in a cluster that is not the run's own
	all     []scenario.Subject
	seed    uint64
	members string // folder of the members' kubeconfigs; empty: there are none
	// elsewhere starts a sharable subject at a worker; nil: they are started here.
	elsewhere func(ctx context.Context, p *subject.Prepared) (record.SubjectFact, error)
	closers
}

// stopGrace is how long a subject in the caller's process gets to end.
const stopGrace = 10 * time.Second

// ErrNoSubject says that a program was to take the place of a subject that the scenario
// does not have.
var ErrNoSubject = errors.New("the scenario has no such subject")

// adoptCaller makes the process that started windtunnel one of the subjects: in place
// of the scenario's of that name, or the only one of a scenario that has none. A
// name that the scenario does not have is refused: beside it the scenario's own
// subject would run, and do the same work.
func adoptCaller(s *scenario.Scenario, name string) error {
	if name == "" {
		return nil
	}
	var known []string
	for i := range s.Subjects {
		x := &s.Subjects[i]
		if known = append(known, x.Name); x.Name == name {
			*x = scenario.Subject{Name: name, External: true, Metrics: x.Metrics, Ready: scenario.Ready{Wait: x.Ready.Wait}, CRDs: x.CRDs, Manifests: x.Manifests, Build: x.Build}
			return nil
		}
	}
	if len(known) > 0 {
		return fmt.Errorf("%w: %q is not one of %s%s; name the one that your program replaces, or declare %s with external: true",
			ErrNoSubject, name, strings.Join(known, ", "), text.DidYouMean(name, known), name)
	}
	s.Subjects = append(s.Subjects, scenario.Subject{Name: name, External: true, Metrics: &scenario.Metrics{}})
	return nil
}

// watchCaller ends the run when the process that started windtunnel, or the
// subject in it, has ended.
func (s *subjects) watchCaller(ctx context.Context, journal journal.Journal, cancel context.CancelCauseFunc) {
	if s.options.Caller == nil {
		return
	}
	name := "caller"
	for _, x := range s.all {
		if x.External {
			name = x.Name
		}
	}
	select {
	case err := <-s.options.Caller.Ended():
		journal.Died(name, err)
		cancel(fmt.Errorf("%s died: %w", name, err))
	case <-ctx.Done():
	}
}

// compileSubjects looks for the programs, so that one that is missing is known
// before anything is started.
func compileSubjects(sc *scenario.Scenario, o Options) (*subjects, error) {
	s := &subjects{options: o, all: sc.Subjects, seed: sc.Seed}
	var errs []error
	for _, x := range s.all {
		if x.External && o.Caller == nil {
			errs = append(errs, fmt.Errorf("subject %s: %w", x.Name, ErrNoCaller))
		}
		if !x.External {
			errs = append(errs, subject.Find(x, filepath.Dir(o.File)))
		}
	}
	return s, errors.Join(errs...)
}

// startAll starts the subjects one after another. From then on their death ends the
// run.
func (s *subjects) startAll(ctx context.Context, p *plane.Plane, in *installation, dir *directory) error {
	for _, x := range s.all {
		fact, err := s.startOne(ctx, x, p, in, dir)
		if err != nil {
			return err
		}
		dir.manifest.Subjects = append(dir.manifest.Subjects, fact)
	}
	return dir.saveManifest()
}

func (s *subjects) startOne(ctx context.Context, x scenario.Subject, p *plane.Plane, in *installation, dir *directory) (record.SubjectFact, error) {
	prepared, err := subject.Prepare(x, subject.Options{
		Plane: p, Members: s.members, Folder: filepath.Dir(s.options.File), LogDir: dir.File(record.LogFolder), Self: s.options.Versions["windtunnel"], Stamp: s.stamp, Seed: s.seed,
	})
	if err != nil {
		return record.SubjectFact{}, err
	}
	switch {
	case x.External:
		return s.startCaller(ctx, prepared, dir)
	case x.Sharable && s.elsewhere != nil:
		return s.elsewhere(ctx, prepared)
	}
	return in.startServed(ctx, prepared)
}

// startCaller lets the process that started windtunnel be a subject.
func (s *subjects) startCaller(ctx context.Context, p *subject.Prepared, dir *directory) (record.SubjectFact, error) {
	c := s.options.Caller
	pid, err := c.Start(ctx, external.Start{Name: p.Name(), Kubeconfig: p.Kubeconfig, Metrics: p.MetricsURL})
	if err != nil {
		return record.SubjectFact{}, fmt.Errorf("start %s: %w", p.Name(), err)
	}
	s.atEnd(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			dir.log.Warn("a subject did not end", slog.String("subject", p.Name()), slog.Any("error", err))
		}
	})
	fact, unread, err := p.Joined(ctx, pid)
	if unread != nil {
		dir.addWarning(fmt.Sprintf("only the CPU and memory of %s are measured: its metrics could not be read: %v", p.Name(), unread))
	}
	return fact, err
}

// endCaller ends the subject in the caller's process, and says whether there was one.
func (s *subjects) endCaller() bool {
	had := len(s.closers.all) > 0
	s.close()
	return had
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
