package flight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/fly/stages"
	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
)

// WorkerOptions say which worker of which leader a process is.
type WorkerOptions struct {
	Access protocol.Access
	Index  int
	Spool  string // file for its records, which must not exist; it is removed when the leader has them all
	// Local says that the leader has started this process itself. Only then may it have the
	// process start subjects and use a kubeconfig file of this machine: whoever starts a
	// worker elsewhere lends it to send requests, and not to run programs.
	Local bool
	Log   *slog.Logger
}

// Work sends a share of the load of a run that another process leads, until that says
// that the run is over. An error says why it could not take part to the end.
func Work(ctx context.Context, o WorkerOptions) (err error) {
	c := clock.Start()
	binary, err := protocol.Binary()
	if err != nil {
		return err
	}
	w, err := protocol.Join(ctx, o.Access, protocol.Identity{Index: o.Index, Binary: binary}, protocol.WorkerOptions{Clock: c, Log: o.Log})
	if err != nil {
		return err
	}
	defer w.Close()
	var plan workerPlan
	if err := json.Unmarshal(w.Plan, &plan); err != nil {
		return fmt.Errorf("read the leader's plan: %w", err)
	}
	if plan.Cluster != "" && !o.Local {
		return fmt.Errorf("read the leader's plan: kubeconfig %s: %w", plan.Cluster, errNotLocal)
	}
	records, err := record.Create(o.Spool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, records.Close()) }()
	own, err := plan.newDuty(ctx, worker{index: o.Index, of: w.Of, local: o.Local, leader: o.Access.URL, records: records, clock: c, log: o.Log})
	if err != nil {
		return err
	}
	defer own.close()
	metering, stop := context.WithCancel(ctx)
	var wait guard.Group
	wait.Go(func() { usage.New(records, c, nil, usage.Options{}).Run(metering) })
	err = w.Serve(ctx, records, o.Spool, own)
	stop()
	wait.Wait()
	if err == nil {
		err = os.Remove(o.Spool)
	}
	return err
}

// errNotLocal refuses what a leader may ask of its own processes alone.
var errNotLocal = errors.New("only workers that the run has started itself (--worker-processes) use files and run programs of their machine")

// worker is what every worker of a run has.
type worker struct {
	index, of int
	local     bool   // see WorkerOptions
	leader    string // URL
	records   *record.Writer
	clock     clock.Clock
	log       *slog.Logger
}

// duty is what a worker does.
type duty interface {
	protocol.Duty
	close()
}

// newDuty returns what the worker is to do, of which everything is ready then.
func (p workerPlan) newDuty(ctx context.Context, w worker) (duty, error) {
	if w.index >= p.Senders {
		return p.newKeeper(w)
	}
	s := &sender{worker: w, share: share.Share{Index: w.index, Of: p.Senders}, answering: map[string]*steps.Answering{}}
	s.atEnd(s.endAnswers)
	if err := s.openConnections(ctx, p); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// sender is the load of a worker.
type sender struct {
	worker
	share   share.Share
	session *steps.Session
	closers

	mu        sync.Mutex                  // parts are planned one after another
	answering map[string]*steps.Answering // the ends of paths, by step
}

// openConnections compiles the plan and makes the connections.
func (s *sender) openConnections(ctx context.Context, plan workerPlan) error {
	e, workload, err := plan.readPlan(plan.Kubeconfig, nil)
	if err != nil {
		return err
	}
	client, err := wire.New(e, wire.Options{UserAgent: "windtunnel-load", Clock: s.clock})
	if err != nil {
		return err
	}
	s.atEnd(func() { _ = client.Close() })
	generator, err := load.New(load.Options{Endpoint: e, Records: s.records, Clock: s.clock})
	if err != nil {
		return err
	}
	s.atEnd(func() { _ = generator.Close() })
	s.session = &steps.Session{Workload: workload, Created: steps.NewCreated(), Load: generator, Client: client, Clock: s.clock, Log: s.log}
	s.session.Created.TrackChanges()
	s.session.DiscoverResources(ctx)
	return nil
}

// readPlan makes of a plan where a worker's calls go and what the load is, and into acts,
// unless that is nil, what nodes do. Its files are there for no longer than that takes.
func (p workerPlan) readPlan(kubeconfig []byte, acts *stages.Set) (e endpoint.Endpoint, w *steps.Workload, err error) {
	folder, err := os.MkdirTemp("", "windtunnel-worker-")
	if err != nil {
		return e, nil, fmt.Errorf("make a folder for the plan: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if e, err = p.endpointOf(kubeconfig); err == nil {
		w, err = p.compileScenario(folder)
	}
	if err == nil && acts != nil {
		*acts, err = stages.Compile(w.Scenario.Fleet, folder)
	}
	return e, w, err
}

// endpointOf returns where a worker's calls go.
func (p workerPlan) endpointOf(kubeconfig []byte) (endpoint.Endpoint, error) {
	if p.Cluster != "" {
		return endpoint.FromKubeconfig(p.Cluster, "")
	}
	return endpoint.Parse(kubeconfig)
}

// Leave does nothing: between parts there is no load.
func (s *sender) Leave() {}

// Progress is where the load stands.
func (s *sender) Progress() any {
	g := s.session.Load
	return workerProgress{Load: g.Tally(), Unexpected: g.FailedForGood(s.session.Workload.Expects)}
}

// Prepare plans a part of the load, or begins or ends the end of a path.
func (s *sender) Prepare(ctx context.Context, body json.RawMessage) (protocol.Task, error) {
	var o order
	if err := json.Unmarshal(body, &o); err != nil {
		return nil, fmt.Errorf("read what is to be sent: %w", err)
	}
	if o.Answer != nil {
		return s.answerPath(ctx, *o.Answer)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	plan, err := planPart(ctx, s.session, o)
	if err != nil {
		return nil, err
	}
	asked, err := plan.Asked()
	if err != nil {
		return nil, err
	}
	sum := planDigest(asked, plan)
	plan.Share = s.share
	s.session.Load.Reserve(ctx, plan)
	return &sharedPart{sender: s, plan: plan, digest: sum}, nil
}

// sharedPart is a worker's share of a part of the load.
type sharedPart struct {
	*sender
	plan   load.Plan
	digest string
}

// Prepared tells the leader what was planned.
func (x *sharedPart) Prepared() any { return prepared{x.digest} }

// Send sends it, and tells what the answers said of the objects.
func (x *sharedPart) Send(ctx context.Context, begin clock.Time) (any, error) {
	x.plan.Begin = max(1, begin)
	err := x.session.Load.Run(ctx, x.plan)
	return sentPart{x.session.Created.TakeChanges()}, err
}
