package flight

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fleet"
	"github.com/windtunnel/windtunnel/internal/load"
	"github.com/windtunnel/windtunnel/internal/workers"
	"github.com/windtunnel/windtunnel/scenario"
)

// keeper is a worker that keeps a share of the nodes alive.
type keeper struct {
	worker
	config  scenario.Fleet
	options fleet.Options

	mu    sync.Mutex
	fleet *fleet.Fleet // nil: not yet, or not any more
	over  bool
}

// newKeeper reads what the nodes do.
func (p workerPlan) newKeeper(w worker) (*keeper, error) {
	var acts stages
	e, workload, err := p.read(p.FleetKubeconfig, &acts)
	if err != nil {
		return nil, err
	}
	share := fleet.Share{Index: w.index - p.Senders, Of: w.of - p.Senders}
	k := &keeper{worker: w, config: workload.Scenario.Fleet}
	k.options = fleet.Options{
		Endpoint: e, Records: w.records, Clock: w.clock, Log: w.log, Seed: p.Seed + uint64(share.Index), Name: p.FleetName, Share: share,
		Stamp: p.Stamp, Namespaces: workload.Owns, Stages: acts.machine, Objects: acts.objects, Version: p.Version,
		Connections: load.Share(share).Portion(k.config.Connections),
	}
	return k, nil
}

// Prepare answers with the share: there is one part, and it is to make the nodes.
func (k *keeper) Prepare(context.Context, json.RawMessage) (workers.Task, error) { return k, nil }

// Prepared tells the leader which nodes.
func (k *keeper) Prepared() any {
	return keptNodes{k.options.Share, k.options.Share.Count(k.config.Nodes)}
}

var errLeft = errors.New("the run is over")

// Send makes the nodes, and returns when all of them can be scheduled to. They live on
// after it. When ctx ends before, no more are made.
func (k *keeper) Send(ctx context.Context, begin clock.Time) (any, error) {
	if clock.Sleep(ctx, k.clock.Until(begin)) != nil {
		return nil, context.Cause(ctx)
	}
	f, err := fleet.Start(context.WithoutCancel(ctx), k.config, k.options)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	over := k.over
	if !over {
		k.fleet = f
	}
	k.mu.Unlock()
	if over {
		return nil, errors.Join(errLeft, f.Close())
	}
	waiting, cancel := context.WithTimeout(ctx, time.Duration(k.config.Within))
	defer cancel()
	err = f.Ready(waiting)
	if ctx.Err() != nil {
		k.Leave()
	}
	return struct{}{}, err
}

// Progress is how many of the nodes are schedulable.
func (k *keeper) Progress() any {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fleet == nil {
		return workerProgress{}
	}
	return workerProgress{Nodes: k.fleet.Stats().Schedulable}
}

// Leave keeps no node alive any more.
func (k *keeper) Leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	if k.fleet == nil {
		return
	}
	if err := k.fleet.Close(); err != nil {
		k.log.Warn("the fleet did not end cleanly", slog.Any("error", err))
	}
	k.fleet = nil
}

func (k *keeper) close() { k.Leave() }
