// Package flight runs a scenario from its file to a verdict: boot, populate,
// load, settle, save, judge, save. It leaves a run directory whatever happens.
//
// It measures and judges nothing by itself: it owns the order of things and
// their end. The verbs run and up call it.
package flight

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/builtin"
	"github.com/windtunnel/windtunnel/internal/fleet/stage/machine"
	"github.com/windtunnel/windtunnel/internal/flight/inspect"
	"github.com/windtunnel/windtunnel/internal/flight/journal"
	"github.com/windtunnel/windtunnel/internal/flight/steps"
	"github.com/windtunnel/windtunnel/internal/interop/kwok"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/observe/lifecycle"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
	"github.com/windtunnel/windtunnel/internal/plane"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/slo"
	"github.com/windtunnel/windtunnel/internal/subject/external"
	"github.com/windtunnel/windtunnel/scenario"
)

// ErrInterrupted ends a run that a person stopped.
var ErrInterrupted = errors.New("interrupted")

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
	Kubeconfig  string            // fly this cluster; empty: boot a plane
	Out         string            // run directory; empty: runs/SCENARIO/UTC TIME with a link latest
	Seed        *uint64           // in place of the scenario's
	Command     []string          // how it was called, for the manifest
	Versions    map[string]string // of windtunnel and what is linked, for the manifest
	Log         *slog.Logger
	Status      func(Status) // called now and then from one goroutine; may be nil
	StatusEvery time.Duration
	Caller      *external.Caller // the process that started windtunnel, whose end ends the run; nil: nobody minds
	As          string           // with Caller: the subject that it is; empty: one that the scenario calls external
}

// Result is what a run left.
type Result struct {
	Dir       record.Dir
	Judgement slo.Judgement
	// Err is why the run did not end as it should; the records up to then were
	// saved and judged. ErrInterrupted, ErrNoRecords, a dead component, a plane
	// that did not start.
	Err error
}

// run is one run under way.
type run struct {
	options  Options
	scenario *scenario.Scenario
	imported Imported
	dir      record.Dir
	clock    clock.Clock
	records  *record.Writer
	manifest record.Manifest
	log      *slog.Logger
	status   *board

	plane     *plane.Plane
	fleet     *fleet.Fleet
	life      *lifecycle.Observer
	lives     *lifecycle.Declared
	watcher   *wire.Client // of life
	generator *load.Generator
	workload  *steps.Workload
	created   *steps.Created
	injected  *steps.Injected
	cluster   string           // which one it is, of a plane that others started
	stamp     string           // of this run and no other, on the namespaces that it makes
	ours      []bool           // which of the scenario's namespaces this run made
	doubtful  []int            // of those that are not ours, the ones whose creation the server did not answer for
	machine   *machine.Machine // of the fleet's stages; nil for the built-in set fast
	staged    []kwok.Document  // objects that belong to them
	stop      []func()         // in reverse order
	measure   func(context.Context)
	meter     *usage.Sampler // of the components' processes
	subjects  subjects
}

// Run runs a scenario. An error means that there is no run directory to look
// at: the input is at fault or nothing could be written. What goes wrong later
// is Result.Err, and its verdict is unknown.
func Run(ctx context.Context, o Options) (Result, error) {
	in, err := o.load()
	if err != nil {
		return Result{}, err
	}
	if o.Kubeconfig != "" && in.Format != "" {
		in.Scenario.Fleet.Nodes = 0 // their tools use the nodes that there are
	}
	r := &run{options: o, scenario: in.Scenario, imported: in, clock: clock.Start(), log: o.Log, stamp: rand.Text(),
		created: steps.NewCreated(), injected: &steps.Injected{Log: o.Log}}
	if r.workload, err = steps.Compile(r.scenario, o.File); err != nil {
		return Result{}, err
	}
	if err := r.compileStages(); err != nil {
		return Result{}, err
	}
	adopt(r.scenario, o.As)
	if err := r.compileSubjects(); err != nil {
		return Result{}, err
	}
	if err := r.create(); err != nil {
		return Result{}, err
	}
	defer r.pilot()()
	r.status = newBoard(r)
	for _, note := range in.Notes {
		r.warn(note)
	}
	r.warnUnmet()
	ended := r.fly(ctx)
	return r.conclude(ended), nil
}

// bootError marks an error as ErrBoot without a word more in its text.
type bootError struct{ error }

func (e bootError) Is(target error) bool { return target == ErrBoot }
func (e bootError) Unwrap() error        { return e.error }

// create makes the run directory and what is in it from the start.
func (r *run) create() error {
	out := r.options.Out
	if out == "" {
		out = filepath.Join("runs", r.scenario.Name, r.clock.Epoch().Format("20060102T150405Z"))
	}
	dir, err := record.CreateDir(out)
	if err != nil {
		return err
	}
	r.dir = dir
	if err := dir.Write(record.ScenarioFile, r.imported.Native); err != nil {
		return err
	}
	r.manifest = r.newManifest()
	r.manifest.Imported = r.imported.Format
	if err := dir.WriteJSON(record.ManifestFile, r.manifest); err != nil {
		return err
	}
	if r.records, err = record.Create(dir.File(record.StreamFile)); err != nil {
		return err
	}
	if r.options.Out == "" {
		r.link()
	}
	return nil
}

// link points runs/SCENARIO/latest at this run. A file system without links
// costs only the convenience.
func (r *run) link() {
	latest := filepath.Join(filepath.Dir(string(r.dir)), "latest")
	tmp := latest + ".new"
	_ = os.Remove(tmp)
	if err := os.Symlink(filepath.Base(string(r.dir)), tmp); err == nil {
		if os.Rename(tmp, latest) != nil {
			_ = os.Remove(tmp)
		}
	}
}

// fly does everything that is recorded. It returns why it ended early, or nil.
func (r *run) fly(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-r.records.Failed():
			cancel(fmt.Errorf("%w: %w", ErrNoRecords, r.records.Err()))
		case <-ctx.Done():
		}
	})
	wait.Go(func() { r.status.loop(ctx) })
	wait.Go(func() { r.watchCaller(ctx, cancel) })
	err := r.stages(ctx, cancel, &wait)
	if cause := context.Cause(ctx); cause != nil {
		err = cause // what ended the run, rather than what failed because of it
	}
	r.journal().RunEnded(r.status.stepName(), endReason(err), err)
	r.status.cleanUp()
	r.leave(ctx)
	cancel(nil)
	r.close()
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
	}
	return record.Broken
}

// stages boots, populates and runs the steps.
func (r *run) stages(ctx context.Context, cancel context.CancelCauseFunc, wait *sync.WaitGroup) error {
	before := inspect.ReadCPU(r.clock, nil)
	if err := r.step(ctx, "boot", func() error { return r.boot(ctx) }); err != nil {
		return bootError{err}
	}
	wait.Go(func() {
		select {
		case death := <-r.plane.Died():
			r.journal().Died(death.Component, death.Err)
			cancel(fmt.Errorf("%s died: %w", death.Component, death.Err))
		case <-ctx.Done():
		}
	})
	if err := r.startSubjects(ctx); err != nil {
		return err
	}
	if err := r.observe(ctx, cancel, wait); err != nil {
		return err
	}
	if err := r.awaitSubjects(ctx); err != nil {
		return err
	}
	if err := r.step(ctx, "gate", func() error { return r.passGate(ctx, before) }); err != nil {
		return err
	}
	if err := r.step(ctx, "populate", func() error { return r.populate(ctx) }); err != nil {
		return err
	}
	if err := r.step(ctx, "namespaces", func() error { return r.namespaces(ctx) }); err != nil {
		return err
	}
	session := r.session()
	session.DiscoverResources(ctx)
	if err := r.lives.Synced(ctx); err != nil {
		return err
	}
	r.measure(ctx)
	r.journal().RunBegan(r.scenario.Name)
	unprofiled := r.profile(ctx)
	err := steps.Run(ctx, session)
	unprofiled()
	r.measure(context.WithoutCancel(ctx))
	return err
}

// journal writes the run's events.
func (r *run) journal() journal.Journal { return journal.Journal{Records: r.records, Clock: r.clock} }

// step does one part of the run.
func (r *run) step(ctx context.Context, name string, do func() error) error {
	return r.tracker().Track(ctx, name, do)
}

func (r *run) tracker() steps.Tracker {
	return steps.Tracker{Journal: r.journal(), Progress: r.status}
}

// session is what a step needs of what there is of the run until now.
func (r *run) session() *steps.Session {
	return &steps.Session{
		Tracker: r.tracker(), Workload: r.workload, Created: r.created, Injected: r.injected,
		Plane: r.plane, Own: r.own(), Client: r.watcher, Load: r.generator, Fleet: r.fleet, Pods: r.life, Installed: r.subjects.installer,
		Clock: r.clock, Log: r.log, Warn: r.warn, Dir: r.dir,
	}
}

// faulted takes note of what was done to a component.
func (r *run) faulted(f plane.Fault) {
	r.journal().Disturbed(f)
	if f.Kind != plane.FaultStart || r.meter == nil {
		return
	}
	if c, ok := r.plane.Component(f.Component); ok {
		r.meter.Follow(usage.Process{Name: c.Name, PID: c.PID, Cgroup: c.Cgroups["cpu"], Memory: c.Cgroups["memory"]})
	}
}

// boot starts the plane, or reaches the one that exists.
func (r *run) boot(ctx context.Context) (err error) {
	if r.options.Kubeconfig != "" {
		r.plane, err = plane.Attach(ctx, r.options.Kubeconfig, plane.Options{Log: r.log, Clock: r.clock, OnFault: r.faulted})
	} else {
		r.plane, err = plane.Start(ctx, r.scenario.Plane, plane.Options{
			LogDir: r.dir.File(record.LogFolder), BaseDir: filepath.Dir(r.options.File),
			Log: r.log, Clock: r.clock, Relays: r.workload.DisturbedClients(), OpenRelays: r.workload.SlowsAnswers(), Seed: r.scenario.Seed, OnFault: r.faulted,
		})
	}
	if err != nil {
		return err
	}
	r.atEnd(func() {
		if err := r.plane.Close(); err != nil {
			r.log.Warn("the plane did not end cleanly", slog.Any("error", err))
		}
	})
	if !r.own() {
		if err := r.workload.InterposeProxies(r.plane); err != nil {
			return err
		}
	}
	r.manifest.Plane = r.plane.Facts()
	for name, version := range r.plane.Versions() {
		r.manifest.Versions[name] = version
	}
	for _, w := range r.plane.Warnings() {
		r.warn(w)
	}
	r.journal().PlaneReady(r.manifest.Plane.Ready)
	return r.dir.WriteJSON(record.ManifestFile, r.manifest)
}

func (r *run) warn(text string) {
	r.manifest.Warnings = append(r.manifest.Warnings, text)
	r.journal().Warned(text)
	r.log.Warn(text)
}

func (r *run) atEnd(f func()) { r.stop = append(r.stop, f) }

// close ends all that was started, the last first.
func (r *run) close() {
	for i := len(r.stop) - 1; i >= 0; i-- {
		r.stop[i]()
	}
	r.stop = nil
}

// populate starts the fleet and waits until its nodes can be scheduled to.
func (r *run) populate(ctx context.Context) error {
	if r.scenario.Fleet.Nodes == 0 {
		return nil
	}
	f, err := fleet.Start(ctx, r.scenario.Fleet, fleet.Options{
		Endpoint: r.plane.Endpoint("fleet"), Records: r.records, Clock: r.clock, Log: r.log, Seed: r.scenario.Seed,
		Name: r.fleetName(), Stages: r.machine, Objects: r.staged, Connections: r.scenario.Fleet.Connections,
		Version: r.options.Versions["windtunnel"],
	})
	if err != nil {
		return err
	}
	r.fleet = f
	r.status.follow(r.generator, f)
	r.atEnd(func() {
		if err := f.Close(); err != nil {
			r.log.Warn("the fleet did not end cleanly", slog.Any("error", err))
		}
	})
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.scenario.Fleet.Within))
	defer cancel()
	if err := f.Ready(ctx); err != nil {
		return fmt.Errorf("the fleet's %d nodes were not all schedulable within %v: %w",
			r.scenario.Fleet.Nodes, r.scenario.Fleet.Within, err)
	}
	r.journal().FleetReady(r.scenario.Fleet.Nodes)
	return nil
}

// compileStages reads and compiles what the scenario says that nodes and pods do,
// so that a faulty stage is known before anything is started.
func (r *run) compileStages() error {
	names, every := r.scenario.Fleet.Stages, time.Duration(r.scenario.Fleet.Status)
	if len(names) == 0 && every == 0 {
		return nil
	}
	if len(names) == 0 {
		names = []string{"fast"}
	}
	file, err := builtin.Sets(names, filepath.Dir(r.options.File))
	if err != nil {
		return err
	}
	if every > 0 && !file.Beat(every) {
		return fmt.Errorf("fleet.status: no stage of %s posts the conditions of nodes after a delay", strings.Join(names, ", "))
	}
	r.machine, err = machine.Compile(file.Stages)
	r.staged = file.Others
	return err
}

// fleetName tells this run's nodes from those of others in a cluster that we
// share; on a plane of our own the default does.
func (r *run) fleetName() string {
	if r.options.Kubeconfig == "" {
		return ""
	}
	return "windtunnel-" + strconv.FormatInt(r.clock.Epoch().Unix(), 36)
}
