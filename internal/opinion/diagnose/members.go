package diagnose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bounds of what a client of many clusters does.
const (
	// farBound is how long the quickest tenth of a member's answers may take: the
	// 20 ms that KubeVela's assessment calls near.
	farBound = 0.020
	// scanBound is how long a look into a cache may take on average: an index
	// answers in microseconds, however much there is.
	scanBound = 0.001
)

// away is the share of a component's work that is the way to other clusters: calls
// to them, as far as a gateway in between waits for their answers, where even the
// quickest tenth of these is slow.
func (b *blame) away(component string) track {
	work, calls := b.sum(working, instance, component), b.sum(remote, instance, component)
	all, waits, floor := b.sum(remote), b.sum(upstream), b.sum(upstreamFloor)
	return b.track(func(i int) float64 {
		return of(calls.at(i), work.at(i)) * of(waits.at(i), all.at(i)) * where(floor.at(i) > farBound)
	})
}

// distances are workers that wait for clusters far away: the queue before them is
// that way's, as long as every one of them is busy.
func (b *blame) distances() (out []candidate) {
	for _, s := range b.f.Answers[queued].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		if _, ok := b.f.find(remote, instance, component); !ok {
			continue
		}
		stands := b.standing(component, queue)
		way, tokens, work := b.away(component), b.sum(throttled, instance, component), b.sum(working, instance, component)
		n, _ := b.workersOf(component, queue)
		back := b.held(component)
		out = append(out, b.candidate(Finding{
			Cause: Distance, Component: component,
			Sentence: fmt.Sprintf("The %.3g busy workers of %s waited for other clusters: a call there took %s on average, of which the cluster itself and the way to it took %s.",
				b.f.whole(working, instance, component), component, unit.Text(b.f.whole(remoteMean, instance, component), "seconds"), unit.Text(b.f.whole(upstreamMean), "seconds")),
			Evidence: []Evidence{
				b.evidence(upstreamFloor, figure("seconds", bound(farBound), "the quickest tenth of the clusters' answers took at most so long, seen from the gateway")),
				b.evidence(upstreamMean, figure("seconds", nil, "mean time of the clusters' answers, seen from the gateway")),
				b.evidence(remoteMean, figure("seconds", nil, "mean time of a call to another cluster"), instance, component),
				b.evidence(working, figure("workers", boundOf(n), "workers that are busy at a time, of so many"), instance, component, "name", queue),
			},
			Try: "Give " + component + " more workers, and its limiter as many calls a second as they make: each of them waits for one round trip after another. " +
				"Or run it nearer to the clusters.",
		}, b.track(func(i int) float64 {
			return stands[i] * way[i] * rest(of(tokens.at(i), work.at(i)), back[i])
		})))
	}
	return out
}

func boundOf(n float64) *float64 {
	if n <= 0 {
		return nil
	}
	return bound(n)
}

// standing is the share of each slice in which items wait for busy workers.
func (b *blame) standing(component, queue string) track {
	labels := []string{instance, component, "name", queue}
	waits, items, busy := b.sum(queued, labels...), b.sum(depth, labels...), b.occupied(component, queue)
	return b.track(func(i int) float64 { return busy[i] * portion(max(waits.at(i), items.at(i))) })
}

// scansOf is how many workers of a component go through whole caches at a time: those
// that list a kind of which a list takes longer than by an index. Kinds are looked at
// one by one, or the quick lists of one would hide the long ones of another.
func (b *blame) scansOf(component string) track {
	out := make(track, b.f.Window.Slices)
	for _, s := range b.f.Answers[scanning].Series {
		if s.Labels[instance] != component {
			continue
		}
		took := b.sum(scanMean, instance, component, "kind", s.Labels["kind"])
		for i := range out {
			out[i] += track(s.Slices).at(i) * where(took.at(i) > scanBound)
		}
	}
	return out
}

// scanned is the share of a component's work that goes into looking through caches.
func (b *blame) scanned(component string) track {
	scans, work := b.scansOf(component), b.sum(working, instance, component)
	return b.track(func(i int) float64 { return of(scans.at(i), work.at(i)) })
}

// scannedCPU is the share of a component's CPU that goes into it. Scans do nothing but
// compute, so that they are stretched as whatever computes is, by a limit and by a
// full machine: they take so much of the CPU as they are of the threads that run or
// would. Where the kernel does not count those, what a limit holds back is taken off.
// Workers wait for answers as well, so that their time tells little of what fills a
// limit; but scans are no more than their part of what workers do beside waiting: of
// several that want to compute the kernel sees those alone that have a thread.
func (b *blame) scannedCPU(component string) track {
	scans, used, ready, hold := b.scansOf(component), b.sum(cpu, instance, component), b.sum(waiting, instance, component), b.held(component)
	work, calls := b.sum(working, instance, component), b.sum(asking, instance, component)
	_, counted := b.f.find(waiting, instance, component)
	return b.track(func(i int) float64 {
		if !counted {
			return of(scans.at(i)*rest(hold[i]), used.at(i))
		}
		ofWorkers := of(scans.at(i), max(scans.at(i), work.at(i)-calls.at(i)))
		return min(of(scans.at(i), used.at(i)+ready.at(i)), ofWorkers)
	})
}

// scans are components that look through all there is for a few objects. It is their
// CPU that goes into it: it counts where that, or their workers, are used up.
func (b *blame) scans() (out []candidate) {
	for _, name := range b.f.names(scanning) {
		share, ofCPU, hold, crowded, what := b.scanned(name), b.scannedCPU(name), b.held(name), b.crowd(name), b.mostScanned(name)
		stands := make(track, b.f.Window.Slices)
		for _, s := range b.f.Answers[queued].Series {
			if s.Labels[instance] == name {
				for i, v := range b.standing(name, s.Labels["name"]) {
					stands[i] = max(stands[i], v)
				}
			}
		}
		out = append(out, b.computing(Finding{
			Cause: Scan, Component: name,
			Sentence: fmt.Sprintf("%s looked through a whole cache%s for a few objects: %s each time, and %.2g workers did at a time.",
				name, ofKind(what), unit.Text(b.f.whole(scanMean, what...), "seconds"), b.f.whole(scanning, what...)),
			Evidence: []Evidence{
				b.evidence(scanMean, figure("seconds", bound(scanBound), "mean time of a list from that cache"), what...),
				b.evidence(scanning, figure("workers", nil, "workers that list from that cache at a time"), what...),
				b.evidence(working, figure("workers", nil, "workers that are busy at a time"), instance, name),
				b.evidence(cpu, figure("cores", nil, "cores that it used"), instance, name),
				b.evidence(waiting, figure("threads", nil, "threads of it that were ready to run and did not, for the machine or a limit, at a time"), instance, name),
			},
			Try: "Find these objects by an index: a list that goes through all of them takes longer with each one that there is.",
		}, b.track(func(i int) float64 { return max(ofCPU[i]*hold[i], share[i]*stands[i]*rest(hold[i])) * rest(crowded[i]) })))
	}
	return out
}

// mostScanned are the labels of the cache in whose lists most workers of a component are.
func (b *blame) mostScanned(component string) []string {
	out, most := []string{instance, component}, -1.0
	for _, s := range b.f.Answers[scanning].Series {
		if s.Labels[instance] == component && s.Whole > most {
			out, most = []string{instance, component, "kind", s.Labels["kind"]}, s.Whole
		}
	}
	return out
}

// ofKind says whose cache it is, where that is known.
func ofKind(labels []string) string {
	if kind := labels[len(labels)-1]; len(labels) == 4 && kind != "" {
		return " of kind " + kind
	}
	return ""
}

// replicas are the programs that one service consists of: those whose names differ
// only in the number at their end, by what is before it, where one of them passes
// requests on. One that nobody asked anything counts nothing, and is one of them.
func (b *blame) replicas() map[string][]string {
	out := map[string][]string{}
	for _, name := range b.f.names(proxied) {
		if service := serviceOf(name); service != "" {
			out[service] = nil
		}
	}
	for _, name := range b.f.names(cpu) {
		service := serviceOf(name)
		if _, ok := out[service]; ok {
			out[service] = append(out[service], name)
		}
	}
	return out
}

// serviceOf is a name without the dash and the number at its end; empty without them.
func serviceOf(name string) string {
	service := strings.TrimRight(name, "0123456789")
	if service == name || !strings.HasSuffix(service, "-") {
		return ""
	}
	return strings.TrimSuffix(service, "-")
}

// lopsided is the share of what holds a replica back that it would be spared if all
// replicas of its service had as much to do: what it uses beyond their mean.
func (b *blame) lopsided(name string) track {
	all := b.replicas()[serviceOf(name)]
	if len(all) < 2 {
		return make(track, b.f.Window.Slices)
	}
	mean, own := b.meanCPU(all), b.sum(cpu, instance, name)
	return b.track(func(i int) float64 { return beyond(own.at(i), mean[i]) })
}

func (b *blame) meanCPU(all []string) track {
	out := make(track, b.f.Window.Slices)
	for _, name := range all {
		for i, v := range b.sum(cpu, instance, name) {
			out[i] += v / float64(len(all))
		}
	}
	return out
}

// imbalances are services of several replicas of which some are at their CPU limit
// while others have little to do.
func (b *blame) imbalances() (out []candidate) {
	all := b.replicas()
	for _, service := range slices.Sorted(maps.Keys(all)) {
		if len(all[service]) < 2 {
			continue
		}
		share := make(track, b.f.Window.Slices)
		first, most, mean := "", -1.0, 0.0
		for _, name := range all[service] {
			hold, more := b.ownThrottling(name), b.lopsided(name)
			for i := range share {
				share[i] = max(share[i], hold.at(i)*more[i])
			}
			used := b.f.whole(cpu, instance, name)
			if used > most {
				first, most = name, used
			}
			mean += used / float64(len(all[service]))
		}
		out = append(out, b.candidate(Finding{
			Cause: Imbalance, Component: service,
			Sentence: fmt.Sprintf("%s had more to do than the others of its %s, and was at its CPU limit: it used %.2g cores where they used %.2g on average, and answered %.3g requests a second.",
				first, unit.Count(len(all[service]), "replicas"), most, mean, b.f.whole(proxied, instance, first)),
			Evidence: []Evidence{
				b.evidence(cpu, figure("cores", bound(short(mean)), "cores that it used; the bound is the mean of all replicas"), instance, first),
				b.evidence(held, figure("ratio", bound(0), "share of the CPU controller's periods in which it was throttled"), instance, first),
				b.evidence(proxied, figure("1/s", nil, "requests that it passed on"), instance, first),
			},
			Try: "Let clients open more connections, so that chance spreads them better, or run one large replica in place of several small ones: a client of HTTP/2 stays with one.",
		}, share))
	}
	return out
}

// passedOn is the share of the API server's requests that it only passes on to a
// gateway.
func (b *blame) passedOn() track {
	by, own := b.sum(byHub), b.sum(served)
	return b.track(func(i int) float64 { return of(by.at(i), by.at(i)+own.at(i)) })
}

// proxying is an API server at its CPU limit that passes on requests for other
// clusters.
func (b *blame) proxying() []candidate {
	if len(b.f.Answers[byHub].Series) == 0 {
		return nil
	}
	hold, share := b.ownThrottling(apiServer), b.passedOn()
	return []candidate{b.candidate(Finding{
		Cause: Proxying, Component: apiServer,
		Sentence: fmt.Sprintf("%s was at its CPU limit while it passed %.3g requests a second on to a gateway, beside %.3g that it answered itself.",
			apiServer, b.f.whole(byHub), b.f.whole(served)),
		Evidence: []Evidence{
			b.evidence(byHub, figure("1/s", bound(0), "requests that came to the gateway through the API server")),
			b.evidence(served, figure("1/s", nil, "requests that the API server answered itself")),
			b.evidence(held, figure("ratio", bound(0), "share of the CPU controller's periods in which it was throttled"), instance, apiServer),
		},
		Try: "Let the controller connect to the gateway itself (--cluster-gateway-url).",
	}, b.track(func(i int) float64 { return hold.at(i) * share[i] }))}
}
