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

// waitingForClusters is the share of a component's work that is the way to other clusters: calls
// to them, as far as a gateway in between waits for their answers, where even the
// quickest tenth of these is slow.
func waitingForClusters(f *Facts, component string) track {
	work, calls := f.sumSeries(working, instance, component), f.sumSeries(remote, instance, component)
	all, waits, floor := f.sumSeries(remote), f.sumSeries(upstream), f.sumSeries(upstreamFloor)
	return f.perSlice(func(i int) float64 {
		return shareOf(calls.at(i), work.at(i)) * shareOf(waits.at(i), all.at(i)) * oneIf(floor.at(i) > farBound)
	})
}

// findDistance finds workers that wait for distant clusters: the queue before them is the
// distance's, as long as every worker is busy.
func findDistance(f *Facts, d delays) (out []candidate) {
	for _, s := range f.Answers[queued].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		if _, ok := f.findSeries(remote, instance, component); !ok {
			continue
		}
		stands := waitingForWorkers(f, component, queue)
		way, tokens, work := waitingForClusters(f, component), f.sumSeries(throttled, instance, component), f.sumSeries(working, instance, component)
		n, _ := workersOf(f, component, queue)
		back := heldBack(f, component)
		out = append(out, newCandidate(Finding{
			Component: component,
			Sentence: fmt.Sprintf("The %.3g busy workers of %s waited for other clusters: a call there took %s on average, of which the cluster itself and the way to it took %s.",
				f.wholeValue(working, instance, component), component, unit.Text(f.wholeValue(remoteMean, instance, component), "seconds"), unit.Text(f.wholeValue(upstreamMean), "seconds")),
			Evidence: []Evidence{
				f.newEvidence(upstreamFloor, newFigure("seconds", new(farBound), "the quickest tenth of the clusters' answers took at most so long, seen from the gateway")),
				f.newEvidence(upstreamMean, newFigure("seconds", nil, "mean time of the clusters' answers, seen from the gateway")),
				f.newEvidence(remoteMean, newFigure("seconds", nil, "mean time of a call to another cluster"), instance, component),
				f.newEvidence(working, newFigure("workers", boundIfKnown(n), "workers that are busy at a time, of so many"), instance, component, "name", queue),
			},
			Try: "Give " + component + " more workers, and its limiter as many calls a second as they make: each of them waits for one round trip after another. " +
				"Or run it nearer to the clusters.",
		}, f.perSlice(func(i int) float64 {
			return stands[i] * way[i] * leftAfter(shareOf(tokens.at(i), work.at(i)), back[i])
		})))
	}
	return out
}

func boundIfKnown(n float64) *float64 {
	if n <= 0 {
		return nil
	}
	return new(n)
}

// waitingForWorkers is the share of each slice in which items wait for busy workers.
func waitingForWorkers(f *Facts, component, queue string) track {
	labels := []string{instance, component, "name", queue}
	waits, items, busy := f.sumSeries(queued, labels...), f.sumSeries(depth, labels...), workersBusy(f, component, queue)
	return f.perSlice(func(i int) float64 { return busy[i] * clampShare(max(waits.at(i), items.at(i))) })
}

// waitingForAnyWorkers is the same of whichever of a component's queues is worst.
func waitingForAnyWorkers(f *Facts, component string) track {
	out := make(track, f.Window.Slices)
	for _, s := range f.Answers[queued].Series {
		if s.Labels[instance] == component {
			for i, v := range waitingForWorkers(f, component, s.Labels["name"]) {
				out[i] = max(out[i], v)
			}
		}
	}
	return out
}

// scanningWorkers is how many workers of a component go through whole caches at a time: those
// that list a kind of which a list takes longer than by an index. Kinds are looked at
// one by one, or the quick lists of one would hide the long ones of another.
func scanningWorkers(f *Facts, component string) track {
	out := make(track, f.Window.Slices)
	for _, s := range f.Answers[scanning].Series {
		if s.Labels[instance] != component {
			continue
		}
		took := f.sumSeries(scanMean, instance, component, "kind", s.Labels["kind"])
		for i := range out {
			out[i] += track(s.Slices).at(i) * oneIf(took.at(i) > scanBound)
		}
	}
	return out
}

// scanShare is the share of a component's work that goes into looking through caches.
func scanShare(f *Facts, component string) track {
	scans, work := scanningWorkers(f, component), f.sumSeries(working, instance, component)
	return f.perSlice(func(i int) float64 { return shareOf(scans.at(i), work.at(i)) })
}

// scanShareOfCPU is the share of a component's CPU that goes into it. Scans do nothing but
// compute, so that they are stretched as whatever computes is, by a limit and by a
// full machine: they take so much of the CPU as they are of the threads that run or
// would. Where the kernel does not count those, what a limit holds back is taken off.
// Workers wait for answers as well, so that their time tells little of what fills a
// limit; but scans are no more than their part of what workers do beside waiting: of
// several that want to compute the kernel sees those alone that have a thread.
func scanShareOfCPU(f *Facts, component string) track {
	scans, used, ready, hold := scanningWorkers(f, component), f.sumSeries(cpu, instance, component), f.sumSeries(waiting, instance, component), heldBack(f, component)
	work, calls := f.sumSeries(working, instance, component), f.sumSeries(asking, instance, component)
	_, counted := f.findSeries(waiting, instance, component)
	return f.perSlice(func(i int) float64 {
		if !counted {
			return shareOf(scans.at(i)*leftAfter(hold[i]), used.at(i))
		}
		ofWorkers := shareOf(scans.at(i), max(scans.at(i), work.at(i)-calls.at(i)))
		return min(shareOf(scans.at(i), used.at(i)+ready.at(i)), ofWorkers)
	})
}

// findScan finds components that look through all there is for a few objects. It is their
// CPU that goes into it: it counts where that, or their workers, are used up.
func findScan(f *Facts, d delays) (out []candidate) {
	for _, name := range f.componentNames(scanning) {
		share, ofCPU, hold, crowded, what := scanShare(f, name), scanShareOfCPU(f, name), heldBack(f, name), waitingForCore(f, name), mostScannedCache(f, name)
		stands := waitingForAnyWorkers(f, name)
		out = append(out, newCandidate(Finding{
			Component: name,
			Sentence: fmt.Sprintf("%s looked through a whole cache%s for a few objects: %s each time, and %.2g workers did at a time.",
				name, ofKind(what), unit.Text(f.wholeValue(scanMean, what...), "seconds"), f.wholeValue(scanning, what...)),
			Evidence: []Evidence{
				f.newEvidence(scanMean, newFigure("seconds", new(scanBound), "mean time of a list from that cache"), what...),
				f.newEvidence(scanning, newFigure("workers", nil, "workers that list from that cache at a time"), what...),
				f.newEvidence(working, newFigure("workers", nil, "workers that are busy at a time"), instance, name),
				f.newEvidence(cpu, newFigure("cores", nil, "cores that it used"), instance, name),
				f.newEvidence(waiting, newFigure("threads", nil, "threads of it that were ready to run and did not, for the machine or a limit, at a time"), instance, name),
			},
			Try: "Find these objects by an index: a list that goes through all of them takes longer with each one that there is.",
		}, f.perSlice(func(i int) float64 {
			return max(ofCPU[i]*hold[i], share[i]*stands[i]*leftAfter(hold[i])) * leftAfter(crowded[i])
		})))
	}
	return out
}

// mostScannedCache returns the labels of the cache in whose lists most workers of a component are.
func mostScannedCache(f *Facts, component string) []string {
	out, most := []string{instance, component}, -1.0
	for _, s := range f.Answers[scanning].Series {
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

// replicasByService returns the programs that one service consists of: those whose names differ
// only in the number at their end, by what is before it, where one of them passes
// requests on. One that nobody asked anything counts nothing, and is one of them.
func replicasByService(f *Facts) map[string][]string {
	out := map[string][]string{}
	for _, name := range f.componentNames(proxied) {
		if service := serviceOf(name); service != "" {
			out[service] = nil
		}
	}
	for _, name := range f.componentNames(cpu) {
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

// excessOverReplicas is the share of what holds a replica back that it would be spared if all
// replicas of its service had as much to do: what it uses beyond their mean.
func excessOverReplicas(f *Facts, name string) track {
	all := replicasByService(f)[serviceOf(name)]
	if len(all) < 2 {
		return make(track, f.Window.Slices)
	}
	mean, own := meanCPU(f, all), f.sumSeries(cpu, instance, name)
	return f.perSlice(func(i int) float64 { return shareBeyond(own.at(i), mean[i]) })
}

func meanCPU(f *Facts, all []string) track {
	out := make(track, f.Window.Slices)
	for _, name := range all {
		for i, v := range f.sumSeries(cpu, instance, name) {
			out[i] += v / float64(len(all))
		}
	}
	return out
}

// findImbalance finds services of several replicas of which some are at their CPU limit
// while others have little to do.
func findImbalance(f *Facts, d delays) (out []candidate) {
	all := replicasByService(f)
	for _, service := range slices.Sorted(maps.Keys(all)) {
		if len(all[service]) < 2 {
			continue
		}
		share := make(track, f.Window.Slices)
		first, most, mean := "", -1.0, 0.0
		for _, name := range all[service] {
			hold, more := ownThrottledShare(f, name), excessOverReplicas(f, name)
			for i := range share {
				share[i] = max(share[i], hold.at(i)*more[i])
			}
			used := f.wholeValue(cpu, instance, name)
			if used > most {
				first, most = name, used
			}
			mean += used / float64(len(all[service]))
		}
		out = append(out, newCandidate(Finding{
			Component: service,
			Sentence: fmt.Sprintf("%s had more to do than the others of its %s, and was at its CPU limit: it used %.2g cores where they used %.2g on average, and answered %.3g requests a second.",
				first, unit.Count(len(all[service]), "replicas"), most, mean, f.wholeValue(proxied, instance, first)),
			Evidence: []Evidence{
				f.newEvidence(cpu, newFigure("cores", new(roundFigure(mean)), "cores that it used; the bound is the mean of all replicas"), instance, first),
				f.newEvidence(held, newFigure("ratio", new(0.0), "share of the CPU controller's periods in which it was throttled"), instance, first),
				f.newEvidence(proxied, newFigure("1/s", nil, "requests that it passed on"), instance, first),
			},
			Try: "Let clients open more connections, so that chance spreads them better, or run one large replica in place of several small ones: a client of HTTP/2 stays with one.",
		}, share))
	}
	return out
}

// proxiedShare is the share of the API server's requests that it only passes on to a
// gateway.
func proxiedShare(f *Facts) track {
	by, own := f.sumSeries(byHub), f.sumSeries(served)
	return f.perSlice(func(i int) float64 { return shareOf(by.at(i), by.at(i)+own.at(i)) })
}

// findProxying finds an API server at its CPU limit that passes on requests for other
// clusters.
func findProxying(f *Facts, d delays) []candidate {
	if len(f.Answers[byHub].Series) == 0 {
		return nil
	}
	hold, share := ownThrottledShare(f, apiServer), proxiedShare(f)
	return []candidate{newCandidate(Finding{
		Component: apiServer,
		Sentence: fmt.Sprintf("%s was at its CPU limit while it passed %.3g requests a second on to a gateway, beside %.3g that it answered itself.",
			apiServer, f.wholeValue(byHub), f.wholeValue(served)),
		Evidence: []Evidence{
			f.newEvidence(byHub, newFigure("1/s", new(0.0), "requests that came to the gateway through the API server")),
			f.newEvidence(served, newFigure("1/s", nil, "requests that the API server answered itself")),
			f.newEvidence(held, newFigure("ratio", new(0.0), "share of the CPU controller's periods in which it was throttled"), instance, apiServer),
		},
		Try: "Let the controller connect to the gateway itself (--cluster-gateway-url).",
	}, f.perSlice(func(i int) float64 { return hold.at(i) * share[i] }))}
}
