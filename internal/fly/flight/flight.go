// Package flight runs a scenario from its file to a verdict: boot, populate,
// load, settle, save, judge, save. It leaves a run directory whatever happens.
//
// It measures and judges nothing by itself: it owns the order of things and
// their end.
package flight

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/plan"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/leader"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/fly/subject"
	"github.com/windtunnel/windtunnel/internal/fly/subject/external"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrInterrupted ends a run that a person stopped.
var ErrInterrupted = errors.New("interrupted")

// ErrAborted ends a run that its scenario wants to be ended early.
var ErrAborted = errors.New("stopped by abortOn")

// ErrBoot ends a run whose plane could not be started or reached: the input or
// the machine is at fault, and nothing was measured.
var ErrBoot = errors.New("no plane")

// ErrExists says that something that the run would make is there already.
var ErrExists = errors.New("it exists already")

// ErrNoRecords says that the records could not be written any further.
var ErrNoRecords = errors.New("the records could not be written")

// Options say what to run and where to leave it.
type Options struct {
	File        string            // the scenario
	Text        []byte            // of File, where it was read before: the runs of one experiment are of one text, whatever becomes of the file
	Set         map[string]string // parameters; of an imported file its own variables
	Overrides   []string          // files of variables, for imported files
	Env         []string          // names of variables of the environment that imported files may read though they look like secrets
	Kubeconfig  string            // fly this cluster; empty: boot a plane
	Out         string            // run directory; empty: runs/SCENARIO/UTC TIME with a link latest
	Seed        *uint64           // in place of the scenario's
	Command     []string          // how it was called, for the manifest
	Versions    map[string]string // of windtunnel and what is linked, for the manifest
	Log         *slog.Logger
	Notice      func(line string)  // told what there is to say about the scenario's file, FILE:LINE: TEXT; may be nil
	Effects     func(plan.Effects) // told before anything is started what it does beside sending calls, if anything; may be nil
	Status      func(Status)       // called now and then from one goroutine; may be nil
	StatusEvery time.Duration
	Caller      *external.Caller // the process that started windtunnel, whose end ends the run; nil: nobody minds
	As          string           // with Caller: the subject that it is; empty: one that the scenario calls external

	// MaxNeighbours is the share of all cores' time that other processes may take
	// before a miss is unknown; 0: record.DefaultMaxNeighbours.
	MaxNeighbours float64

	Workers leader.Settings // who sends the load
	Trust
}

// Trust says what a scenario may do to a cluster that is not the run's own, and to
// this machine.
type Trust struct {
	Adopt       []string // objects that subjects may change though the run has not made them: RESOURCE/[NAMESPACE/]NAME
	Destructive bool     // requests may change and delete what the run has not made
	NoExec      bool     // it may run no program, and let no component use files of this machine
	OwnPods     bool     // of a cluster that is not the run's own only the pods with the run's label are read and recorded
	AuditLog    string   // file of this machine to which the API server of others writes its audit log; empty: it is not read
}

// Result is what a run left.
type Result struct {
	Dir       record.Dir // empty: the run was refused before anything started, and left nothing
	Judgement slo.Judgement
	// Err is why the run was aborted; the records up to then were
	// saved and judged. ErrInterrupted, ErrNoRecords, a dead component, a plane
	// that did not start.
	Err error
}

// run is one run under way. What there is of it grows as it goes on: its plane,
// then its connections and instruments, then its fleet.
type run struct {
	options      Options
	id           string // of this run and no other
	clock        clock.Clock
	log          *slog.Logger
	scenario     *scenario.Scenario
	source       source
	workload     *workload.Workload
	created      *steps.Created
	injected     *steps.Injected
	stages       stages.Set // of the fleet's nodes and pods
	installation *installation
	subjects     *subjects
	namespaces   *namespaces
	dir          *directory
	progress     *progress

	plane       *plane.Plane
	visit       visit
	client      *wire.Client    // for what is asked of the plane beside the load
	generator   *load.Generator // what sends the load
	senders     *leader.Senders // the generator, and workers if there are any
	instruments *instruments
	fleet       *fleet.Fleet // nil: the scenario has no nodes
	members     members
	workers     *leader.Workers // nil: this process does all
	closers
}

// Run runs a scenario. An error means that there is no run directory to look
// at: the input is at fault or nothing could be written. What goes wrong later
// is Result.Err, and its verdict is unknown.
func Run(ctx context.Context, o Options) (Result, error) {
	in, err := o.loadScenario()
	if err != nil {
		return Result{}, err
	}
	if o.Notice != nil {
		for _, line := range in.Scenario.Warnings {
			o.Notice(line)
		}
	}
	if o.Kubeconfig != "" && in.Format != "" {
		in.Scenario.Fleet.Nodes = 0 // their tools use the nodes that there are
	}
	if err := buildSubjects(ctx, in.Scenario, o); err != nil {
		return Result{}, err
	}
	r, err := newRun(in, o)
	if err != nil {
		return Result{}, err
	}
	defer r.dir.claimOwner()()
	r.noteImport(in)
	ended := r.flyRecorded(ctx)
	return r.writeResults(ended), nil
}

// newRun compiles all that a scenario says, so that an error in it is known
// before anything is started, and makes the run directory.
func newRun(in Imported, o Options) (*run, error) {
	r, effects, err := compileRun(in, o)
	if err == nil {
		err = r.findPrograms()
	}
	var forecast Forecast
	if err == nil {
		forecast, err = forecastRun(r.workload, o)
	}
	if err != nil {
		return nil, err
	}
	if o.Effects != nil && !effects.Empty() {
		o.Effects(effects)
	}
	if r.dir, err = newDirectory(o, in, r.id, r.clock); err != nil {
		return nil, err
	}
	for _, sentence := range forecast.Unmet { // what this machine cannot bear
		r.dir.addWarning(sentence)
	}
	r.installation.owner = subject.Owner{Stamp: object.Stamp{Run: r.newStamp().Run}, Adopt: o.Adopt} // a subject's pods are real
	r.subjects.stamp = r.newStamp()
	r.namespaces = &namespaces{workload: r.workload, stamp: r.newStamp()}
	r.progress = newProgress(r.scenario, r.clock)
	if !r.installation.isEmpty() {
		r.progress.of++
	}
	if r.options.Workers.CountAll() > 0 {
		r.progress.of++
	}
	return r, nil
}

// bootError marks an error as ErrBoot without a word more in its text.
type bootError struct{ error }

func (e bootError) Is(target error) bool { return target == ErrBoot }
func (e bootError) Unwrap() error        { return e.error }

// flyRecorded does everything that is recorded. It returns why it ended early, or nil.
func (r *run) flyRecorded(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wait guard.Group
	wait.Go(func() {
		select {
		case <-r.dir.records.Failed():
			cancel(fmt.Errorf("%w: %w", ErrNoRecords, r.dir.records.Err()))
		case <-ctx.Done():
		}
	})
	wait.Go(func() { r.progress.reportPeriodically(ctx, r.options, r.dir) })
	wait.Go(func() { r.subjects.watchCaller(ctx, r.dir.newJournal(), cancel) })
	err := r.flyParts(ctx, cancel, &wait)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what ended the run, rather than what failed because of it
	}
	reason := endReason(err)
	r.dir.newJournal().RunEnded(r.progress.stepName(), reason, err)
	r.progress.enterCleanUp()
	r.cleanUp(ctx)
	cancel(nil)
	r.close()
	if reason == record.Done {
		r.reportUnseen()
	}
	wait.Wait()
	return err
}

// endReason is why a run ended, as its records say it.
func endReason(err error) record.EndReason {
	switch {
	case err == nil:
		return record.Done
	case errors.Is(err, ErrInterrupted):
		return record.Interrupted
	case errors.Is(err, ErrAborted):
		return record.Aborted
	}
	return record.Broken
}

// flyParts boots, populates and does the steps.
func (r *run) flyParts(ctx context.Context, cancel context.CancelCauseFunc, wait *guard.Group) error {
	before := inspect.ReadCPU(r.clock, nil)
	if err := r.trackPart(ctx, "boot", func() error { return r.bootPlane(ctx) }); err != nil {
		return bootError{err}
	}
	if r.options.Workers.StartFirst(r.scenario) {
		if err := r.startWorkers(ctx); err != nil {
			return err
		}
	}
	if err := r.startMembers(ctx); err != nil {
		return err
	}
	wait.Go(func() { r.watchDeaths(ctx, cancel) })
	if err := r.installObjects(ctx); err != nil {
		return err
	}
	if err := r.startSubjects(ctx); err != nil {
		return err
	}
	if err := r.startInstruments(ctx, cancel); err != nil {
		return err
	}
	if err := r.awaitSubjects(ctx); err != nil {
		return err
	}
	if err := r.trackPart(ctx, "preflight", func() error { return r.newPreflight().awaitClean(ctx, before) }); err != nil {
		return err
	}
	if r.options.Workers.Fleets > 0 { // those who only send come when there is something to send
		if err := r.startWorkers(ctx); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		do   func() error
	}{
		{"populate", func() error { return r.startFleet(ctx) }},
		{"namespaces", func() error { return r.namespaces.createAll(ctx, r.generator, r.client) }},
	} {
		if err := r.trackPart(ctx, part.name, part.do); err != nil {
			return err
		}
	}
	if err := r.populateMembers(ctx); err != nil {
		return err
	}
	return r.flySteps(ctx)
}

// flySteps does the scenario's steps, with what is measured of them beside.
func (r *run) flySteps(ctx context.Context) error {
	if err := r.startWorkers(ctx); err != nil {
		return err
	}
	session := r.newSession()
	session.DiscoverResources(ctx)
	if err := r.instruments.declaredSynced(ctx); err != nil {
		return err
	}
	r.instruments.sampleNow(ctx)
	r.dir.newJournal().RunBegan(r.scenario.Name)
	stopProfiles := startProfiles(ctx, r.plane, r.dir)
	ctx, stop := r.watchForAbort(ctx)
	err := steps.Run(ctx, session)
	if cause := stop(); cause != nil {
		err = cause
	}
	stopProfiles()
	r.dir.tellUnlimited(r.plane.Unlimited()) // of what was started again
	r.instruments.sampleNow(context.WithoutCancel(ctx))
	return err
}

// ownsPlane tells a plane that the run has started itself.
func (r *run) ownsPlane() bool { return r.options.Kubeconfig == "" }

// trackPart does a part of the run that has a name.
func (r *run) trackPart(ctx context.Context, name string, do func() error) error {
	return r.newTracker().Track(ctx, name, do)
}

func (r *run) newTracker() steps.Tracker {
	return steps.Tracker{Journal: r.dir.newJournal(), Progress: r.progress, Sample: r.sampleStep}
}

// sampleWithin bounds the reading of counters at a step's end: a target that hangs, as by a
// fault, must not hold the load up.
const sampleWithin = 2 * time.Second

// sampleStep reads CPU, memory and metrics if a query is asked of the step's begin or end.
func (r *run) sampleStep(ctx context.Context, step string) {
	if r.instruments == nil || !r.scenario.AsksOf(step) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sampleWithin)
	defer cancel()
	r.instruments.sampleNow(ctx)
}

// newSession is what a step needs of what there is of the run until now.
func (r *run) newSession() *steps.Session {
	out := &steps.Session{
		Tracker: r.newTracker(), Workload: r.workload, Created: r.created, Members: r.members.all, MemberFolder: r.members.set.Folder(), Injected: r.injected,
		Plane: r.plane, Own: r.ownsPlane(), MaxOthers: r.options.MaxNeighbours, Client: r.client, Load: r.generator, Fleet: r.fleet, Pods: r.instruments.podObserver(),
		Installed: r.installation.installer, Clock: r.clock, Log: r.log, Warn: r.dir.addWarning, Dir: r.dir.Dir,
	}
	if r.workers != nil && r.options.Workers.Workers > 0 {
		out.Workers, out.Answers = r.workers, r.workers
	}
	return out
}

func (r *run) newPreflight() *preflightCheck {
	return &preflightCheck{Session: r.newSession(), dir: r.dir}
}

// closers end what was started, the last first.
type closers struct{ all []func() }

// atEnd has something ended by close.
func (c *closers) atEnd(end func()) { c.all = append(c.all, end) }

func (c *closers) close() {
	for i := len(c.all) - 1; i >= 0; i-- {
		c.all[i]()
	}
	c.all = nil
}
