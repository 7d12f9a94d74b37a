package fleet

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/fleet/lag"
	"github.com/windtunnel/windtunnel/internal/fleet/player"
)

// counters are the engine's own; Fleet's mu guards them.
type counters struct {
	created, schedulable, lost, leases int
	running, gone                      int
	retries, dropped, skipped          int
	withheld                           int
	undeleted, relists, watchErrors    int
	events                             int
	lag, sendLag, lease                lag.Recent
}

// Stats is the state of a fleet at a moment.
type Stats struct {
	Nodes       int // wanted
	Created     int // ever, or found at the start
	Schedulable int // created, Ready and without a taint
	Lost        int // deleted by somebody else
	Leases      int // held
	Pods        int // on the fleet's nodes
	Running     int // of them, Running and Ready
	Gone        int // pods that came and went

	InFlight int // calls with the server
	Queued   int // stages that are due and not sent
	Waiting  int // timers: stages that are delayed, retries, renewals to come
	Retries  int
	Dropped  int // effects given up: the server will not have them
	Faults   int // objects left alone because a stage or they themselves are at fault, or a stage played on them for ever
	Withheld int // renewals that a disturbance kept back
	Skipped  int // renewals left out because the one before was still on its way
	Relists  int // watches that had to begin anew
	Events   int // watch events and list items taken

	StageLag      time.Duration // p99 of the last 5 to 10 s: stage done - stage due
	SendLag       time.Duration // the fleet's own part of it: request sent - stage due
	LeaseLateness time.Duration // the same of renewals
}

// Stats returns the fleet's state.
func (f *Fleet) Stats() Stats {
	out, players := f.own()
	for _, p := range players { // their locks are never taken under ours
		out.add(p.Stats())
	}
	return out
}

// own returns the engine's part of the state.
func (f *Fleet) own() (Stats, []*player.Player) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &f.stats
	at := time.Duration(f.clock.Now())
	queued := 0
	for i := range f.queues {
		queued += f.queues[i].len()
	}
	out := Stats{
		Nodes: len(f.byName), Created: s.created, Schedulable: s.schedulable, Lost: s.lost, Leases: s.leases,
		Pods: len(f.pods), Running: s.running, Gone: s.gone,
		InFlight: f.inFlight, Queued: queued, Waiting: f.wheel.Len(), Retries: s.retries, Dropped: s.dropped,
		Skipped: s.skipped, Relists: s.relists, Events: s.events,
		StageLag: s.lag.Quantile(at, 0.99), SendLag: s.sendLag.Quantile(at, 0.99), LeaseLateness: s.lease.Quantile(at, 0.99),
		Withheld: s.withheld,
	}
	return out, f.players
}

// add adds what a player did.
func (s *Stats) add(p player.Stats) {
	s.InFlight += p.Playing
	s.Queued += p.Due
	s.Waiting += p.Waiting
	s.Retries += p.Retries
	s.Dropped += p.Dropped
	s.Faults += p.Faults + p.Loops
	s.Relists += p.Relists
	s.Events += p.Events
	s.StageLag, s.SendLag = max(s.StageLag, p.StageLag), max(s.SendLag, p.SendLag)
}

// Traffic returns what went over each of the fleet's connections; those of
// kubelets' reads are not among them. It is nil for a fleet without any.
func (f *Fleet) Traffic() []wire.Traffic {
	if f.traffic == nil {
		return nil
	}
	return f.traffic()
}
