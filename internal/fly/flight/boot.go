package flight

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"strings"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/cleanup"
	"github.com/windtunnel/windtunnel/internal/api/discovery"
	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/leader"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/sim/fleet"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// bootPlane starts the plane, or reaches the one that exists.
func (r *run) bootPlane(ctx context.Context) (err error) {
	if r.ownsPlane() {
		r.plane, err = plane.Start(ctx, r.scenario.Plane, plane.Options{
			LogDir: r.dir.File(record.LogFolder), BaseDir: filepath.Dir(r.options.File),
			Log: r.log, Clock: r.clock, Proxies: r.workload.DisturbedClients(), TerminateTLS: r.workload.SlowsAnswers(), PeerProxies: r.workload.CutsMembers(), Seed: r.scenario.Seed, OnFault: r.noteFault,
		})
	} else {
		r.plane, err = plane.Attach(ctx, r.options.Kubeconfig, plane.Options{Log: r.log, Clock: r.clock, OnFault: r.noteFault, Rights: neededRights(r.workload.Rights())})
	}
	if err != nil {
		return err
	}
	r.atEnd(func() {
		if err := r.plane.Close(); err != nil {
			r.log.Warn("the plane did not end cleanly", slog.Any("error", err))
		}
	})
	if !r.ownsPlane() {
		if err := r.enterCluster(ctx); err != nil {
			return err
		}
	}
	r.dir.manifest.Plane = r.plane.Facts()
	maps.Copy(r.dir.manifest.Versions, r.plane.Versions())
	for _, w := range r.plane.Warnings() {
		r.dir.addWarning(w)
	}
	r.dir.tellUnlimited(r.plane.Unlimited())
	r.dir.newJournal().PlaneReady(r.dir.manifest.Plane.Ready)
	return r.dir.saveManifest()
}

// enterCluster says in a cluster that goes on living that a run is being flown there.
func (r *run) enterCluster(ctx context.Context) error {
	var err error
	if r.visit.client, err = wire.New(r.plane.Endpoint(plane.Admin), wire.Options{UserAgent: "windtunnel-setup", Clock: r.clock}); err != nil {
		return err
	}
	r.atEnd(func() { _ = r.visit.client.Close() })
	served := discovery.New(r.visit.client)
	if r.workload.Destructive = r.options.Destructive; !r.options.Destructive {
		if err := r.workload.CheckCalls(ctx, served); err != nil {
			return err
		}
	}
	if err := r.installation.checkServed(ctx, r.workload, served); err != nil {
		return err
	}
	release, err := cleanup.Hold(context.WithoutCancel(ctx), r.visit.client, r.id, cleanup.Holder(), r.clock)
	if err != nil {
		r.dir.addWarning(fmt.Sprintf("windtunnel clean cannot tell this run from one that was killed: %v", err))
	} else {
		r.visit.release = release
	}
	return steps.InterposeProxies(r.workload, r.plane)
}

// noteFault takes note of what was done to a component.
func (r *run) noteFault(f plane.FaultEvent) {
	r.dir.newJournal().Disturbed(f)
	if f.Kind == plane.FaultStart && r.instruments != nil {
		r.instruments.followProcess(f.Component)
	}
}

// startWorkers starts those who share the run, if there are to be any, and waits until all
// have come.
func (r *run) startWorkers(ctx context.Context) error {
	if r.options.Workers.CountAll() == 0 || r.workers != nil {
		return nil
	}
	return r.trackPart(ctx, "workers", func() error {
		w := leader.New(leader.Run{
			Settings: r.options.Workers, ID: r.id, Self: r.options.Versions["windtunnel"], Text: r.source.text, Set: r.source.set, Workload: r.workload,
			Stamp: r.newStamp(), FleetName: r.fleetName(), Kubeconfig: r.options.Kubeconfig, Plane: r.plane, Dir: r.dir.Dir, Records: r.dir.records,
			Clock: r.clock, Log: r.log, Senders: r.senders, Warn: r.dir.addWarning, StepName: r.progress.stepName,
		})
		r.atEnd(w.Close)
		err := w.Start(ctx)
		if err == nil {
			r.workers = w
		}
		if err == nil && r.options.Workers.Workers > 0 {
			r.created.TrackChanges()
		}
		return err
	})
}

// installObjects brings what the scenario and its subjects need to the plane.
func (r *run) installObjects(ctx context.Context) error {
	if r.installation.isEmpty() {
		return nil
	}
	r.atEnd(r.installation.close)
	return r.trackPart(ctx, "objects", func() error { return r.installation.installAll(ctx, r.plane, r.clock) })
}

// startSubjects starts the scenario's subjects.
func (r *run) startSubjects(ctx context.Context) error {
	if len(r.scenario.Subjects) == 0 {
		return nil
	}
	r.atEnd(r.subjects.close)
	r.subjects.members = r.members.set.Folder()
	if r.options.Workers.Fleets > 0 {
		r.subjects.elsewhere = r.workers.StartSubject
	}
	defer func() { r.dir.tellUnlimited(r.plane.Unlimited()) }()
	return r.trackPart(ctx, "subjects", func() error { return r.subjects.startAll(ctx, r.plane, r.installation, r.dir) })
}

// awaitSubjects waits for what subjects are to have done before the run begins.
func (r *run) awaitSubjects(ctx context.Context) error {
	for _, x := range r.scenario.Subjects {
		if x.Ready.Wait == nil {
			continue
		}
		ready := steps.Wait{Step: "ready-" + x.Name, Spec: x.Ready.Wait}
		if err := r.trackPart(ctx, ready.Step, func() error { return ready.Do(ctx, r.newSession()) }); err != nil {
			return fmt.Errorf("subject %s is not ready: %w", x.Name, err)
		}
	}
	return nil
}

// startInstruments starts the instruments and the load's client: from here on
// pods are seen being created, and CPU, memory and metrics are sampled.
func (r *run) startInstruments(ctx context.Context, cancel context.CancelCauseFunc) error {
	var err error
	if r.client, err = wire.New(r.plane.Endpoint("observe"), wire.Options{UserAgent: "windtunnel-observe", Clock: r.clock}); err != nil {
		return err
	}
	r.atEnd(func() { _ = r.client.Close() })
	if r.generator, err = load.New(load.Options{Endpoint: r.plane.Endpoint("load"), Records: r.dir.records, Clock: r.clock, Issue: r.plane.Issue, Failed: r.callFailed}); err != nil {
		return err
	}
	r.atEnd(func() { _ = r.generator.Close() })
	r.senders.SetOwn(r.generator)
	if err := r.reachMembers(); err != nil {
		return err
	}
	r.progress.setSources(r.senders, nil)
	if r.instruments, err = newInstruments(r); err != nil {
		return err
	}
	if err := r.startAudit(); err != nil {
		return err
	}
	if own := r.newStamp(); r.options.OwnPods && own.Run != "" && r.instruments.podObserver() != nil {
		r.instruments.podObserver().WithLabel(object.RunLabel, own.Run)
	}
	r.instruments.traffic.addClient("observe", r.client.Traffic)
	r.instruments.traffic.addClient("load", r.generator.Client().Traffic)
	// They outlive the cancelled steps, so that an interrupted run still shows its
	// last moments.
	stop, err := r.instruments.startAll(context.WithoutCancel(ctx), cancel)
	if err != nil {
		return err
	}
	r.atEnd(stop)
	return r.instruments.awaitSynced(ctx)
}

// startFleet starts the fleet and waits until its nodes can be scheduled to.
func (r *run) startFleet(ctx context.Context) error {
	if r.scenario.Fleet.Nodes == 0 {
		return nil
	}
	if r.options.Workers.Fleets > 0 {
		if err := r.workers.KeepNodes(ctx); err != nil {
			return err
		}
		r.dir.newJournal().FleetReady(r.scenario.Fleet.Nodes)
		return nil
	}
	// It outlives the cancelled steps: pods end on its nodes when a cluster is left.
	f, err := fleet.Start(context.WithoutCancel(ctx), r.scenario.Fleet, fleet.Options{
		Endpoint: r.plane.Endpoint("fleet"), Records: r.dir.records, Clock: r.clock, Log: r.log, Seed: r.scenario.Seed,
		Name: r.fleetName(), Stamp: r.newStamp(), Namespaces: r.workload.Owns, Stages: r.stages.Machine, Objects: r.stages.Objects, Connections: r.scenario.Fleet.Connections,
		Version: r.options.Versions["windtunnel"],
	})
	if err != nil {
		return err
	}
	r.fleet = f
	r.progress.setSources(r.senders, f)
	r.instruments.traffic.addClient("fleet", f.Traffic)
	r.atEnd(func() {
		if err := f.Close(); err != nil {
			r.log.Warn("the fleet did not end cleanly", slog.Any("error", err))
		}
	})
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.scenario.Fleet.Within))
	defer cancel()
	if err := f.Ready(ctx); err != nil {
		return fmt.Errorf("the fleet's %s did not all become schedulable within %v: %w",
			unit.Count(r.scenario.Fleet.Nodes, "nodes"), r.scenario.Fleet.Within, err)
	}
	r.dir.newJournal().FleetReady(r.scenario.Fleet.Nodes)
	return nil
}

// callFailed tells whoever watches the run of the first call of a step that failed
// for good in some way that the step does not expect.
func (r *run) callFailed(e record.Event) {
	f := e.Failure
	if f.Count == 0 || r.workload.Expects(e.Name, f.Code) {
		return
	}
	what := strings.TrimSpace(fmt.Sprintf("%d %s", f.Code, f.Reason)) + ": "
	if f.Code == 0 {
		what = ""
	}
	r.log.Warn("a call failed", slog.String("step", e.Name), slog.String(f.Verb, f.Object), slog.String("error", text.Clean(what+e.Text)))
}
