package diagnose

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bounds on the way of a request.
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

// etcd tells what the API server's requests wait for etcd beyond what is usual,
// and how much of that is its disk's. It looks at the quickest tenth of the
// writes: a full machine makes many calls slow, but not all of them.
func (b *blame) etcd(in track) {
	calls, floor, all, disk := b.sum(etcdCalls), b.sum(etcdFloor), b.sum(etcdMean), b.sum(fsyncMean)
	share := func(i int) float64 {
		return of(calls.at(i), in.at(i)) * of(floor.at(i)*beyond(floor.at(i), etcdBound), all.at(i))
	}
	b.far = b.track(func(i int) float64 { return share(i) * rest(of(disk.at(i), floor.at(i))) })
	b.slow = b.track(func(i int) float64 { return share(i) * of(disk.at(i), floor.at(i)) })
}

// path is where a request waits on its way through the API server.
func (b *blame) path() []candidate {
	out := append(b.fairness(), b.hooks()...)
	return append(out, b.distance()...)
}

// fairness is API priority and fairness, level by level: a level's queue holds
// requests up for as long as its seats are taken, and what it rejects it does not
// serve at all. Requests wait there only while all seats are taken, which the level
// counts itself; of a server that does not say, a standing queue must do. Seats that webhooks or etcd keep taken are theirs.
func (b *blame) fairness() (out []candidate) {
	const level = "priority_level"
	in, api := b.sum(requests), b.held(apiServer)
	for _, s := range b.f.Answers[apfWait].Series {
		name := s.Labels[level]
		waits, rejected := b.sum(apfWait, level, name), b.sum(apfRejected, level, name)
		taken := b.taken(name)
		share := b.track(func(i int) float64 {
			executing := 1 - b.apf[i]
			deeper := of(b.hook[i]+b.far[i]+b.slow[i], executing)
			held := max(min(b.active[i]*of(waits.at(i), in.at(i)), taken[i]), portion(rejected.at(i)))
			return held * rest(api.at(i), deeper)
		})
		seats := b.f.whole(apfSeats, level, name)
		sentence := fmt.Sprintf("Priority level %s kept %.3g requests waiting at a time for its seats, of which it had %.0f", name, s.Whole, seats)
		evidence := []Evidence{
			b.evidence(apfWait, figure("requests", bound(0), "requests in the level's queues at a time"), level, name),
			b.evidence(requests, figure("requests", nil, "requests in progress at a time, those in queues among them")),
			b.evidence(apfSeats, figure("seats", nil, "seats of the level at the end"), level, name),
			b.evidence(apfUse, figure("ratio", bound(fullFrom), "share of the level's seats that were taken"), level, name),
		}
		if r := b.f.whole(apfRejected, level, name); r > 0 {
			sentence += fmt.Sprintf(", and rejected %s of all", percent(r))
			evidence = append(evidence, b.evidence(apfRejected, figure("ratio", bound(0), "share of the level's requests that it rejected"), level, name))
		}
		out = append(out, b.candidate(Finding{
			Cause: APF, Component: apiServer, Sentence: sentence + ".", Evidence: evidence,
			Try: fmt.Sprintf("Give level %s more nominalConcurrencyShares or longer queues, move the flow to another level, or raise --max-requests-inflight and --max-mutating-requests-inflight.", name),
		}, share))
	}
	return out
}

// taken is the share of each slice in which all seats of a level can have been
// taken: all of it where they mostly were, and of a level before which as many
// requests stand as it has seats (they come in bursts) the time that its seats were.
func (b *blame) taken(name string) track {
	const level = "priority_level"
	waits, use, seats := b.sum(apfWait, level, name), b.sum(apfUse, level, name), b.sum(apfSeats, level, name)
	_, counted := b.f.find(apfUse, level, name)
	return b.track(func(i int) float64 {
		switch {
		case !counted:
			return where(waits.at(i) >= 1)
		case use.at(i) >= fullFrom:
			return 1
		}
		return use.at(i) * where(waits.at(i) >= max(1, seats.at(i)))
	})
}

// hooks are admission webhooks, one by one.
func (b *blame) hooks() (out []candidate) {
	in, api := b.sum(requests), b.held(apiServer)
	for _, s := range b.f.Answers[webhooks].Series {
		name := s.Labels["name"]
		calls, means := b.sum(webhooks, "name", name), b.sum(webhookMean, "name", name)
		took := b.f.whole(webhookMean, "name", name)
		out = append(out, b.candidate(Finding{
			Cause: Webhook, Component: name,
			Sentence: fmt.Sprintf("Admission waited for webhook %s: %s for each request on average.", name, unit.Text(took, "seconds")),
			Evidence: []Evidence{
				b.evidence(webhookMean, figure("seconds", bound(hookBound), "mean time of the webhook's answers"), "name", name),
				b.evidence(webhooks, figure("requests", nil, "requests that wait for it at a time"), "name", name),
				b.evidence(requests, figure("requests", nil, "requests in progress at a time, these among them")),
			},
			Try: "Make the webhook quicker, or narrow its rules, its selectors and its matchConditions, so that fewer requests go through it.",
		}, b.track(func(i int) float64 {
			return b.active[i] * of(calls.at(i), in.at(i)) * where(means.at(i) > hookBound) * rest(api.at(i))
		})))
	}
	return out
}

// distance is etcd's answers that are slow for another reason than its disk, and
// reads that wait for the watch cache.
func (b *blame) distance() []candidate {
	api, own := b.held(apiServer), b.held(etcdName)
	floor, took := b.f.whole(etcdFloor), b.f.whole(etcdMean)
	return []candidate{
		b.candidate(Finding{
			Cause: EtcdLatency, Component: etcdName,
			Sentence: fmt.Sprintf("etcd's answers took %s on average, and the quickest tenth of the writes up to %s, of which its disk took %s.",
				unit.Text(took, "seconds"), unit.Text(floor, "seconds"), unit.Text(b.f.whole(fsyncMean), "seconds")),
			Evidence: []Evidence{
				b.evidence(etcdFloor, figure("seconds", bound(etcdBound), "the quickest tenth of the writes took at most so long")),
				b.evidence(etcdMean, figure("seconds", nil, "mean time of etcd's answers to the API server")),
				b.evidence(fsyncMean, figure("seconds", bound(etcdBound), "mean time of a sync of the log")),
				b.evidence(etcdCalls, figure("requests", nil, "requests that wait for etcd at a time")),
			},
			Try: "Bring etcd nearer to the API server (same host or zone); with several members, measure the way between them: a write waits for a majority.",
		}, b.track(func(i int) float64 { return b.active[i] * b.far[i] * rest(api.at(i), own.at(i)) })),
		b.computing(Finding{
			Cause: WatchCache, Component: apiServer,
			Sentence: fmt.Sprintf("Reads waited %s on average for the watch cache to catch up with etcd.", unit.Text(b.f.whole(cacheMean), "seconds")),
			Evidence: []Evidence{
				b.evidence(cacheWait, figure("requests", nil, "reads that wait for the watch cache at a time")),
				b.evidence(cacheMean, figure("seconds", bound(cacheBound), "mean time that they wait")),
			},
			Try: "See how many events the resource has and how many watchers want them; let clients read with resourceVersion=0 where they may see an older state.",
		}, b.track(func(i int) float64 { return b.active[i] * b.wc[i] * rest(api.at(i), own.at(i), b.crowded[i]) })),
	}
}

// disk is etcd's: one log and one backend, each written by one at a time, so that
// the share of the time that they are being written is how full they are.
func (b *blame) disk() []candidate {
	api, own, crowded := b.held(apiServer), b.held(etcdName), b.crowd(etcdName)
	log, backend := b.sum(fsync), b.sum(commit)
	return []candidate{b.candidate(Finding{
		Cause: EtcdDisk, Component: etcdName,
		Sentence: fmt.Sprintf("etcd synced its log for %s of the time (%s each) and committed for %s of it (%s each).",
			percent(b.f.whole(fsync)), unit.Text(b.f.whole(fsyncMean), "seconds"), percent(b.f.whole(commit)), unit.Text(b.f.whole(commitMean), "seconds")),
		Evidence: []Evidence{
			b.evidence(fsync, figure("ratio", bound(fullFrom), "share of the time in which the log was synced")),
			b.evidence(fsyncMean, figure("seconds", bound(etcdBound), "mean time of a sync")),
			b.evidence(commit, figure("ratio", bound(fullFrom), "share of the time in which the backend was committed")),
			b.evidence(commitMean, figure("seconds", bound(commitBound), "mean time of a commit")),
			b.evidence(etcdFloor, figure("seconds", bound(etcdBound), "the quickest tenth of the writes took at most so long")),
		},
		Try: "Give etcd a quicker disk of its own; events may have an etcd of their own (--etcd-servers-overrides); durability: memory shows how far the plane goes without its disk.",
	}, b.track(func(i int) float64 {
		return max(full(log.at(i)), full(backend.at(i)), b.active[i]*b.slow[i]) * rest(api.at(i), own.at(i), crowded[i])
	}))}
}

// quota is how much of the last fifth of its quota etcd's database takes: when it
// is full, no write is served any more.
func (b *blame) quota() []candidate {
	size := b.sum(dbShare)
	return []candidate{b.candidate(Finding{
		Cause: EtcdQuota, Component: etcdName,
		Sentence: fmt.Sprintf("etcd's database takes %s of its quota; at all of it etcd refuses every write.", percent(b.f.whole(dbShare))),
		Evidence: []Evidence{b.evidence(dbShare, figure("ratio", bound(quotaBound), "share of --quota-backend-bytes"))},
		Try:      "Raise --quota-backend-bytes, compact and defragment, or keep fewer and smaller objects.",
	}, b.track(func(i int) float64 { return portion((size.at(i) - quotaBound) / (1 - quotaBound)) }))}
}
