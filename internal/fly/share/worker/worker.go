// Package worker is the side of those who share a run that another process leads: one sends
// a share of the load, another keeps a share of the nodes, hollow members and subjects. What
// is to be done says the leader; what it may ask of a machine that is not its own is held here.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/fly/share/protocol"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/share"
)

// Verb is the first argument with which windtunnel is a worker of a run. The others are the
// path of a file with a protocol.Access as JSON, the worker's number, and the path of the
// file for its records.
const Verb = "worker"

// StandardInput in place of the path of an access file has a worker read its standard input.
const StandardInput = "-"

// Options say which worker of which leader a process is.
type Options struct {
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
func Work(ctx context.Context, o Options) (err error) {
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
	var plan message.Plan
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
	own, err := newDuty(ctx, plan, worker{index: o.Index, of: w.Of, local: o.Local, leader: o.Access.URL, records: records, clock: c, log: o.Log})
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
func newDuty(ctx context.Context, p message.Plan, w worker) (duty, error) {
	if w.index >= p.Senders {
		return newKeeper(p, w)
	}
	s := &sender{worker: w, share: share.Share{Index: w.index, Of: p.Senders}, answering: map[string]*answering{}}
	if err := s.openConnections(ctx, p); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}
