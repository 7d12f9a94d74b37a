package diagnose

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bounds on the path of a request.
const (
	// etcdBound is how long the quickest tenth of etcd's answers may take: the time
	// that etcd's own documentation gives its disk for a sync at the 99th
	// percentile, so that nine tenths of the calls have more than enough.
	etcdBound = 0.010
	// commitBound is the same document's for a commit of the backend.
	commitBound = 0.025
	// cacheBound is how long a read may wait for the watch cache: while somebody
	// waits, the API server asks etcd ten times a second how far it is.
	cacheBound = 0.1
	// hookBound is how long a webhook may take on average: a twentieth of the second
	// that Kubernetes promises for the whole of a mutating call.
	hookBound = 0.05
	// quotaBound is the share of its quota from which on etcd's database is near it.
	quotaBound = 0.8
)

// findAPF finds API priority and fairness, level by level: a level's queue holds
// requests up for as long as its seats are taken, and what it rejects it does not
// serve at all. Requests wait there only while all seats are taken, which the level
// counts itself; where the server does not export that, a standing queue
// must do. Seats that webhooks or etcd keep taken are theirs.
func findAPF(f *Facts, d delays) (out []candidate) {
	const level = "priority_level"
	in, api := f.sumSeries(requests), heldBack(f, apiServer)
	for _, s := range f.Answers[apfWait].Series {
		name := s.Labels[level]
		waits, rejected := f.sumSeries(apfWait, level, name), f.sumSeries(apfRejected, level, name)
		taken := seatsTaken(f, name)
		share := f.perSlice(func(i int) float64 {
			executing := 1 - d.apf[i]
			deeper := shareOf(d.webhook[i]+d.etcd[i]+d.etcdDisk[i], executing)
			held := max(min(d.active[i]*shareOf(waits.at(i), in.at(i)), taken[i]), clampShare(rejected.at(i)))
			return held * leftAfter(api.at(i), deeper)
		})
		seats := f.wholeValue(apfSeats, level, name)
		sentence := fmt.Sprintf("Priority level %s kept %.3g requests waiting at a time for its seats, of which it had %.0f", name, s.Whole, seats)
		evidence := []Evidence{
			f.newEvidence(apfWait, newFigure("requests", new(0.0), "requests in the level's queues at a time"), level, name),
			f.newEvidence(requests, newFigure("requests", nil, "requests in progress at a time, those in queues among them")),
			f.newEvidence(apfSeats, newFigure("seats", nil, "seats of the level at the end"), level, name),
			f.newEvidence(apfUse, newFigure("ratio", new(fullFrom), "share of the level's seats that were taken"), level, name),
		}
		if r := f.wholeValue(apfRejected, level, name); r > 0 {
			sentence += fmt.Sprintf(", and rejected %s of all", formatPercent(r))
			evidence = append(evidence, f.newEvidence(apfRejected, newFigure("ratio", new(0.0), "share of the level's requests that it rejected"), level, name))
		}
		out = append(out, newCandidate(Finding{
			Component: apiServer, Sentence: sentence + ".", Evidence: evidence,
			Try: fmt.Sprintf("Give level %s more nominalConcurrencyShares or longer queues, move the flow to another level, or raise --max-requests-inflight and --max-mutating-requests-inflight.", name),
		}, share))
	}
	return out
}

// seatsTaken is the share of each slice in which all seats of a level can have been
// taken: all of it where they mostly were, and of a level before which as many
// requests stand as it has seats (they come in bursts) the time that its seats were.
func seatsTaken(f *Facts, name string) track {
	const level = "priority_level"
	waits, use, seats := f.sumSeries(apfWait, level, name), f.sumSeries(apfUse, level, name), f.sumSeries(apfSeats, level, name)
	_, counted := f.findSeries(apfUse, level, name)
	return f.perSlice(func(i int) float64 {
		switch {
		case !counted:
			return oneIf(waits.at(i) >= 1)
		case use.at(i) >= fullFrom:
			return 1
		}
		return use.at(i) * oneIf(waits.at(i) >= max(1, seats.at(i)))
	})
}

// findWebhook finds admission webhooks, one by one.
func findWebhook(f *Facts, d delays) (out []candidate) {
	in, api := f.sumSeries(requests), heldBack(f, apiServer)
	for _, s := range f.Answers[webhooks].Series {
		name := s.Labels["name"]
		calls, means := f.sumSeries(webhooks, "name", name), f.sumSeries(webhookMean, "name", name)
		took := f.wholeValue(webhookMean, "name", name)
		out = append(out, newCandidate(Finding{
			Component: name,
			Sentence:  fmt.Sprintf("Admission waited for webhook %s: %s for each request on average.", name, unit.Text(took, "seconds")),
			Evidence: []Evidence{
				f.newEvidence(webhookMean, newFigure("seconds", new(hookBound), "mean time of the webhook's answers"), "name", name),
				f.newEvidence(webhooks, newFigure("requests", nil, "requests that wait for it at a time"), "name", name),
				f.newEvidence(requests, newFigure("requests", nil, "requests in progress at a time, these among them")),
			},
			Try: "Make the webhook quicker, or narrow its rules, its selectors and its matchConditions, so that fewer requests go through it.",
		}, f.perSlice(func(i int) float64 {
			return d.active[i] * shareOf(calls.at(i), in.at(i)) * oneIf(means.at(i) > hookBound) * leftAfter(api.at(i))
		})))
	}
	return out
}

// findEtcdLatency finds answers of etcd that are slow for another reason than its disk.
func findEtcdLatency(f *Facts, d delays) []candidate {
	api, own := heldBack(f, apiServer), heldBack(f, etcdName)
	floor, took := f.wholeValue(etcdFloor), f.wholeValue(etcdMean)
	return []candidate{newCandidate(Finding{
		Component: etcdName,
		Sentence: fmt.Sprintf("etcd's answers took %s on average, and the quickest tenth of the writes up to %s, of which its disk took %s.",
			unit.Text(took, "seconds"), unit.Text(floor, "seconds"), unit.Text(f.wholeValue(fsyncMean), "seconds")),
		Evidence: []Evidence{
			f.newEvidence(etcdFloor, newFigure("seconds", new(etcdBound), "the quickest tenth of the writes took at most so long")),
			f.newEvidence(etcdMean, newFigure("seconds", nil, "mean time of etcd's answers to the API server")),
			f.newEvidence(fsyncMean, newFigure("seconds", new(etcdBound), "mean time of a sync of the log")),
			f.newEvidence(etcdCalls, newFigure("requests", nil, "requests that wait for etcd at a time")),
		},
		Try: "Bring etcd nearer to the API server (same host or zone); with several members, measure the way between them: a write waits for a majority.",
	}, f.perSlice(func(i int) float64 { return d.active[i] * d.etcd[i] * leftAfter(api.at(i), own.at(i)) }))}
}

// findWatchCache finds reads that wait for the watch cache.
func findWatchCache(f *Facts, d delays) []candidate {
	api, own := heldBack(f, apiServer), heldBack(f, etcdName)
	return []candidate{newCandidate(Finding{
		Component: apiServer,
		Sentence:  fmt.Sprintf("Reads waited %s on average for the watch cache to catch up with etcd.", unit.Text(f.wholeValue(cacheMean), "seconds")),
		Evidence: []Evidence{
			f.newEvidence(cacheWait, newFigure("requests", nil, "reads that wait for the watch cache at a time")),
			f.newEvidence(cacheMean, newFigure("seconds", new(cacheBound), "mean time that they wait")),
		},
		Try: "See how many events the resource has and how many watchers want them; let clients read with resourceVersion=0 where they may see an older state.",
	}, f.perSlice(func(i int) float64 {
		return d.active[i] * d.watchCache[i] * leftAfter(api.at(i), own.at(i), d.crowded[i])
	}))}
}

// findEtcdDisk finds etcd's: one log and one backend, each written by one at a time, so that
// the share of the time that they are being written is how full they are.
func findEtcdDisk(f *Facts, d delays) []candidate {
	api, own, crowded := heldBack(f, apiServer), heldBack(f, etcdName), waitingForCore(f, etcdName)
	log, backend := f.sumSeries(fsync), f.sumSeries(commit)
	return []candidate{newCandidate(Finding{
		Component: etcdName,
		Sentence: fmt.Sprintf("etcd synced its log for %s of the time (%s each) and committed for %s of it (%s each).",
			formatPercent(f.wholeValue(fsync)), unit.Text(f.wholeValue(fsyncMean), "seconds"), formatPercent(f.wholeValue(commit)), unit.Text(f.wholeValue(commitMean), "seconds")),
		Evidence: []Evidence{
			f.newEvidence(fsync, newFigure("ratio", new(fullFrom), "share of the time in which the log was synced")),
			f.newEvidence(fsyncMean, newFigure("seconds", new(etcdBound), "mean time of a sync")),
			f.newEvidence(commit, newFigure("ratio", new(fullFrom), "share of the time in which the backend was committed")),
			f.newEvidence(commitMean, newFigure("seconds", new(commitBound), "mean time of a commit")),
			f.newEvidence(etcdFloor, newFigure("seconds", new(etcdBound), "the quickest tenth of the writes took at most so long")),
		},
		Try: "Give etcd a quicker disk of its own; events may have an etcd of their own (--etcd-servers-overrides); durability: memory shows how far the plane goes without its disk.",
	}, f.perSlice(func(i int) float64 {
		return max(shareFull(log.at(i)), shareFull(backend.at(i)), d.active[i]*d.etcdDisk[i]) * leftAfter(api.at(i), own.at(i), crowded[i])
	}))}
}

// findEtcdQuota finds how much of the last fifth of its quota etcd's database takes: when it
// is full, no write is served any more.
func findEtcdQuota(f *Facts, d delays) []candidate {
	size := f.sumSeries(dbShare)
	return []candidate{newCandidate(Finding{
		Component: etcdName,
		Sentence:  fmt.Sprintf("etcd's database takes %s of its quota; at all of it etcd refuses every write.", formatPercent(f.wholeValue(dbShare))),
		Evidence:  []Evidence{f.newEvidence(dbShare, newFigure("ratio", new(quotaBound), "share of --quota-backend-bytes"))},
		Try:       "Raise --quota-backend-bytes, compact and defragment, or keep fewer and smaller objects.",
	}, f.perSlice(func(i int) float64 { return clampShare((size.at(i) - quotaBound) / (1 - quotaBound)) }))}
}
