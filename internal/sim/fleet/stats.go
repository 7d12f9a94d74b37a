package fleet

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/sim/player"
)

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

// addPlayer adds what a player did.
func (s *Stats) addPlayer(p player.Stats) {
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
