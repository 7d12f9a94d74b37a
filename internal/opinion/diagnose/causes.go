package diagnose

import (
	"cmp"
	"math"
	"slices"
)

// Findings ranks what limited the plane. It is pure.
//
// # How a score is made
//
// A cause's score is the share of the load's window that it explains: the mean,
// over the window's slices, of
//
//	the share of the slice in which work waited there
//	x the share of that waiting that is this cause's own
//	x what no deeper cause explains
//
// How much waited there is Little's law: seconds of waiting per second are the
// number that wait at a time, and one that waits all the time is a whole slice.
// A bound, where there is one, takes away what is no more than usual.
//
// What was not used up explains nothing, however long something waited near it: a
// slice counts for a cause only where the resource that it names was full. Items
// wait a moment for workers who are idle, too, and all the longer on a busy machine.
//
// The last factor follows the work down to where it is held up. Workers of a
// queue that wait for their client's rate limiter are the limiter's, not the
// queue's; calls that wait in the API server for its CPU, for priority and
// fairness, for webhooks or for etcd are those things'; what a component's own
// CPU or memory limit holds back is the limit's. At the bottom is the machine:
// where all cores were busy, whatever computes took longer by the time that
// threads waited for a core, so that causes made of computing count only for the
// rest; waits that no further core would have shortened (a rate limiter, a
// webhook, a distant or slow etcd) come before it, and leave to it what they do
// not explain.
//
// A component that was killed at its memory limit ended the run: it comes first.
// Where nothing was at its limit the one finding says so, and what came nearest.
func Findings(f *Facts) []Finding {
	var all []candidate
	observed := f.Window.To > f.Window.From
	if observed {
		d := newDelays(f)
		for _, c := range listCauses() {
			for _, found := range c.find(f, d) {
				found.Cause, found.computes = c.name, c.computes
				all = append(all, found)
			}
		}
		all = append(all, findMachine(f, d, all)...)
	}
	all = append(findKilled(f, observed), all...)
	slices.SortStableFunc(all, func(x, y candidate) int {
		return cmp.Or(-cmp.Compare(x.Score, y.Score), cmp.Compare(rankTie(x), rankTie(y)))
	})
	out := []Finding{} // never null in JSON
	for _, c := range all {
		if c.Score < minScore || all[0].Score < minFirstScore {
			break
		}
		c.Rank = len(out) + 1
		out = append(out, c.Finding)
	}
	if len(out) == 0 && observed {
		out = append(out, findNothing(f)...)
	}
	return out
}

// cause is how one cause is found: find returns a candidate for each component, queue or
// webhook that it may apply to, without the cause's name.
type cause struct {
	name     Cause
	find     func(*Facts, delays) []candidate
	computes bool // it is made of computing, which a full machine slows down
}

// listCauses returns all but three: Machine is what the others leave, Nothing that there are none,
// and a component that was killed at its memory limit is found in a run without a window,
// too. Of equal scores the first in this list comes first.
func listCauses() []cause {
	return []cause{
		{CPULimit, findCPULimit, false},
		{Memory, findMemory, false},
		{ClientThrottle, findClientThrottle, false},
		{ClientCeiling, findClientCeiling, false},
		{APF, findAPF, false},
		{Webhook, findWebhook, false},
		{EtcdLatency, findEtcdLatency, false},
		{WatchCache, findWatchCache, true},
		{EtcdDisk, findEtcdDisk, false},
		{EtcdQuota, findEtcdQuota, false},
		{WorkQueue, findWorkQueue, true},
		{Stage, findStage, true},
		{Distance, findDistance, false},
		{Imbalance, findImbalance, false},
		{Proxying, findProxying, false},
		{Scan, findScan, true},
		{Scheduler, findScheduler, true},
		{LoadLate, findLoadLate, true},
		{FleetLate, findFleetLate, true},
		{Locks, findLocks, true},
	}
}

// candidate is a cause with its share of each slice.
type candidate struct {
	Finding
	share    track
	computes bool // as its cause does
}

// rankTie puts a full machine before what it explains as much of as the machine does.
func rankTie(c candidate) int {
	if c.Cause == Machine {
		return 0
	}
	return 1
}

// newCandidate makes a candidate of a share; its score is rounded to what it is
// worth.
func newCandidate(f Finding, share track) candidate {
	f.Evidence = dropUnanswered(f.Evidence)
	f.Score = math.Round(share.mean()*1000) / 1000
	return candidate{Finding: f, share: share}
}

// dropUnanswered leaves out evidence of what was not answered: it is none.
func dropUnanswered(all []Evidence) []Evidence {
	return slices.DeleteFunc(all, func(e Evidence) bool { return e.At != nil && e.Expr == "" })
}
