package leader

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/object"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Run is what is shared: the run that the workers belong to, and what its leader needs of it.
type Run struct {
	Settings
	ID         string
	Self       string // version of windtunnel
	Text       []byte // of the scenario, in our own language
	Set        map[string]string
	Workload   *workload.Workload
	Stamp      object.Stamp
	FleetName  string // of the plane's nodes
	Kubeconfig string // of a cluster that is not the run's own; else empty
	Plane      *plane.Plane
	Dir        record.Dir
	Records    *record.Writer
	Clock      clock.Clock
	Log        *slog.Logger
	Senders    *Senders
	Warn       func(text string) // keeps a sentence for the manifest and the report
	StepName   func() string     // of the step that began last
}

// Workers are the workers of a run: processes of this machine, or pods of a host.
type Workers struct {
	run       Run
	leader    *protocol.Leader
	processes []*process.Process
	host      *host    // nil: they are processes
	access    []string // files that say where the leader is to workers that somebody starts
	wait      guard.Group
	leaving   chan struct{}
	hollow    int  // members that they were told to be
	subjects  bool // they have some
}

// New returns the workers of a run, none of which has started. Close them after use.
func New(r Run) *Workers { return &Workers{run: r, leaving: make(chan struct{})} }

// workersWithin is how long workers may take to come, and to bring the rest of their
// records.
const workersWithin = 2 * time.Minute

// Start starts the workers, and waits until all have come.
func (w *Workers) Start(ctx context.Context) error {
	folder, err := w.run.Dir.Folder(record.WorkersFolder)
	if err != nil {
		return err
	}
	binary, err := protocol.Binary()
	if err != nil {
		return err
	}
	plan, err := w.encodePlan()
	if err != nil {
		return err
	}
	o := protocol.Options{
		Workers: w.run.CountAll(), Clock: w.run.Clock, Folder: string(folder), Plan: plan, Binary: binary,
		Clocks: w.tellClock, Lost: w.tellLost, Progress: w.run.Senders.takeProgress,
	}
	if err := w.listenFor(ctx, &o); err != nil {
		return err
	}
	if w.leader, err = protocol.Lead(o); err != nil {
		return err
	}
	switch {
	case w.host != nil:
		err = w.startPods(ctx)
	case w.run.Manual != nil:
		err = w.tellAccess(w.run.Manual.Access)
	default:
		err = w.startProcesses(folder)
	}
	if err != nil {
		return err
	}
	coming, cancel := context.WithTimeoutCause(ctx, workersWithin, fmt.Errorf("within %v", workersWithin))
	defer cancel()
	return w.host.explainMissing(ctx, w.leader.Joined(coming))
}

// listenFor says where the leader listens for workers of other machines.
func (w *Workers) listenFor(ctx context.Context, o *protocol.Options) (err error) {
	var name string
	switch settings := w.run.Settings; {
	case settings.Pods != nil:
		if w.host, err = w.openHost(ctx); err != nil {
			return err
		}
		o.Listen, name, err = w.host.leaderAddress(settings.Pods.Leader)
	case settings.Manual != nil && settings.Manual.Leader != "":
		o.Listen, name = listenAt(settings.Manual.Leader)
	default:
		return nil
	}
	if err == nil {
		err = w.checkReach(name)
	}
	o.Hosts = []string{name}
	return err
}

// Close has the workers leave, and ends those that do not.
func (w *Workers) Close() {
	close(w.leaving)
	if w.leader != nil {
		ctx, cancel := context.WithTimeout(context.Background(), workersWithin)
		if err := w.leader.Leave(ctx); err != nil {
			w.run.Warn(err.Error())
		}
		cancel()
	}
	if w.host != nil {
		if w.host.stop != nil {
			w.host.stop()
		}
		if err := w.host.close(); err != nil {
			w.run.Warn(err.Error())
		}
	}
	patience := time.NewTimer(stopWorkerWithin) // those that were told to leave end by themselves
	defer patience.Stop()
	for _, p := range w.processes {
		select {
		case <-p.Done():
		case <-patience.C:
			patience.Reset(0)
		}
		p.Stop(stopWorkerWithin)
	}
	w.wait.Wait()
	if w.leader != nil {
		if err := w.leader.Close(); err != nil {
			w.run.Log.Warn("the leader of the workers did not end cleanly", slog.Any("error", err))
		}
	}
	for _, path := range w.access {
		_ = os.Remove(path) // it may be gone
	}
}

// stopWorkerWithin is how long a worker that was told to leave may take to end.
const stopWorkerWithin = 5 * time.Second

func (w *Workers) tellClock(worker int, at clock.Time, stands protocol.Clock) {
	w.run.Records.Event(record.Event{At: at, Type: record.EventWorkerClock, Detail: record.Detail{
		Worker: worker, Offset: stands.Offset, Bound: stands.Bound, Jumped: stands.Jumped,
	}})
}

func (w *Workers) tellLost(worker int, why error) {
	w.run.Senders.noteLost(worker)
	step := w.run.StepName()
	w.run.Records.Event(record.Event{At: w.run.Clock.Now(), Type: record.EventWorkerLost, Name: step, Text: why.Error(), Detail: record.Detail{Worker: worker}})
	w.run.Log.Warn("a worker is lost", slog.Int("worker", worker), slog.String("step", step), slog.Any("error", why))
}
