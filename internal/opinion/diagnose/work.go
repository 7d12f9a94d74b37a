package diagnose

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bounds of what a component does with its time.
const (
	searchBound = 0.5 // share of the time in which the scheduler searches for a node
	lockBound   = 1   // goroutines that wait for locks at a time
	// foreignShare is the share of a client's known limit below which what it waits for is
	// another limiter: one that is waited for lets as many go as it may.
	foreignShare = 0.5
)

// findClientThrottle finds components that wait for their own rate limiter. Nothing else can
// shorten that. While its bucket is empty it lets calls go at its rate, so that it
// was empty for no more of the time than the calls that went are of those that
// could have gone, however many of them stood before it at a time.
func findClientThrottle(f *Facts, d delays) (out []candidate) {
	for _, name := range f.componentNames(throttled) {
		waits, went := f.sumSeries(throttled, instance, name), f.sumSeries(paced, instance, name)
		qps, burst, raise := limiterOf(f.componentFact(name))
		setting := ""
		if server, rate := mostLimited(f, name); server != "" && rate < foreignShare*qps {
			out = append(out, describeLimiter(f, name, server, rate))
			continue
		}
		switch {
		case qps > 0 && burst > 0:
			setting = fmt.Sprintf(" (qps %g, burst %g)", qps, burst)
		case qps > 0:
			setting = fmt.Sprintf(" (qps %g)", qps)
		}
		out = append(out, newCandidate(Finding{
			Component: name,
			Sentence: fmt.Sprintf("On average %.3[3]g requests were queued in the client-side rate limiter of %[1]s%[2]s; it sent %.3[4]g requests/s.",
				name, setting, f.wholeValue(throttled, instance, name), f.wholeValue(paced, instance, name)),
			Evidence: []Evidence{
				f.newEvidence(throttled, newFigure("calls", new(0.0), "requests queued in the limiter, on average"), instance, name),
				f.newEvidence(paced, newFigure("1/s", boundIfKnown(qps), "requests that passed the limiter; each client of the component has its own"), instance, name),
			},
			Try: fmt.Sprintf("Raise %s of %s, and see that API priority and fairness protects the server from it.", raise, name),
		}, f.perSlice(func(i int) float64 {
			if qps <= 0 {
				return clampShare(waits.at(i))
			}
			return min(clampShare(waits.at(i)), clampShare(went.at(i)/qps))
		})))
	}
	return out
}

// mostLimited returns the server for which requests of a component wait longest in a rate
// limiter, and how many a second go to it; none of a component that knows one server alone,
// whose limiter may be idle for most of the time.
func mostLimited(f *Facts, name string) (server string, rate float64) {
	servers, longest := 0, 0.0
	for _, s := range f.Answers[throttledAt].Series {
		if !s.hasLabels([]string{instance, name}) {
			continue
		}
		if servers++; s.Whole > longest {
			server, longest = s.Labels["host"], s.Whole
		}
	}
	if servers < 2 {
		return "", 0
	}
	return server, f.wholeValue(pacedAt, instance, name, "host", server)
}

// describeLimiter is of a component that waits for another limiter than the one whose setting
// is known: it lets much less go.
func describeLimiter(f *Facts, name, server string, rate float64) candidate {
	waits := f.sumSeries(throttled, instance, name)
	return newCandidate(Finding{
		Component: name,
		Sentence: fmt.Sprintf("On average %.3g requests were queued in client-side rate limiters of %s, most of them for %s, to which it sent %.3g requests/s: its clients for other API servers have limiters of their own.",
			f.wholeValue(throttled, instance, name), name, server, rate),
		Evidence: []Evidence{
			f.newEvidence(throttled, newFigure("calls", new(0.0), "requests queued in the limiters, on average"), instance, name),
			f.newEvidence(paced, newFigure("1/s", nil, "requests that passed the limiters"), instance, name),
		},
		Try: fmt.Sprintf("Raise QPS and Burst in the rest.Config that %s has for that server: unset, client-go allows 5 requests/s with a burst of 10, and a client of controller-runtime as many for each kind.", name),
	}, f.perSlice(func(i int) float64 { return clampShare(waits.at(i)) }))
}

// limiterOf is the rate limit of a component's client, and what raises it. A
// configuration file has the last word: flags beside it are ignored. 0: it is not known.
func limiterOf(c record.ComponentFact) (qps, burst float64, raise string) {
	if c.Client != nil || hasFlag(c, "config") {
		if c.Client != nil {
			qps, burst = c.Client.QPS, c.Client.Burst
		}
		return qps, burst, "clientConnection.qps and clientConnection.burst in the file of --config"
	}
	if qps, burst = defaultLimiter(c.Name); qps > 0 {
		return flagValue(c, "kube-api-qps", qps), flagValue(c, "kube-api-burst", burst), "--kube-api-qps and --kube-api-burst"
	}
	return 0, 0, "the client's qps and burst"
}

// defaultLimiter is what Kubernetes gives a component where no flag says otherwise.
func defaultLimiter(component string) (qps, burst float64) {
	switch component {
	case "kube-controller-manager":
		return 20, 30
	case "kube-scheduler":
		return 50, 100
	}
	return 0, 0
}

// workersFlag is the flag that says how many take from a queue, and its default.
func workersFlag(queue string) (name string, otherwise float64) {
	switch queue {
	case "deployment", "replicaset", "job", "endpoint", "statefulset":
		return "concurrent-" + queue + "-syncs", 5
	case "namespace":
		return "concurrent-namespace-syncs", 10
	case "daemonset":
		return "concurrent-daemonset-syncs", 2
	case "cronjob":
		return "concurrent-cron-job-syncs", 5
	case "endpoint_slice":
		return "concurrent-service-endpoint-syncs", 5
	case "garbage_collector_attempt_to_delete", "garbage_collector_attempt_to_orphan":
		return "concurrent-gc-syncs", 20
	case "resourcequota_primary", "resourcequota_priority":
		return "concurrent-resource-quota-syncs", 5
	case "horizontalpodautoscaler":
		return "concurrent-horizontal-pod-autoscaler-syncs", 5
	case "disruption":
		return "concurrent-disruption-syncs", 1
	}
	return "", 0
}

// findWorkQueue finds work queues. An item waits in one for its workers' sake only while
// every one of them is busy: where they are not, more of them change nothing. What
// the workers themselves wait for is taken off: the rate limiter of their component,
// and of their calls what holds up the API server; what computes takes longer where no
// core is free.
func findWorkQueue(f *Facts, d delays) (out []candidate) {
	for _, s := range f.Answers[queued].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		all, long := waitingInQueue(f, d, component, queue), longestStageShare(f, component)
		share := f.perSlice(func(i int) float64 { return all[i] * leftAfter(long[i]) })
		if share.mean() < minScore {
			continue
		}
		out = append(out, newCandidate(describeQueue(f, component, queue), share))
	}
	return out
}

// waitingInQueue is the share of each slice in which items wait for busy workers for no
// deeper reason.
func waitingInQueue(f *Facts, d delays, component, queue string) track {
	work, tokens, calls := f.sumSeries(working, instance, component), f.sumSeries(throttled, instance, component), f.sumSeries(asking, instance, component)
	stands, held, way, scans := waitingForWorkers(f, component, queue), heldBack(f, component), waitingForClusters(f, component), scanShare(f, component)
	_, ceiling := steadyRate(f, component)
	return f.perSlice(func(i int) float64 {
		limited := shareOf(tokens.at(i), work.at(i))
		called := shareOf(calls.at(i)-tokens.at(i), work.at(i))
		return stands[i] * leftAfter(limited, called*d.server[i], held.at(i), d.crowded[i], way[i], scans[i], ceiling[i])
	})
}

// workersOf returns how many take from a queue, and the flag that says so; 0 where
// that is not known.
func workersOf(f *Facts, component, queue string) (n float64, name string) {
	if s, ok := f.findSeries(reconcilers, instance, component, "controller", queue); ok {
		return s.Whole, ""
	}
	name, n = workersFlag(queue)
	if name == "" {
		return 0, ""
	}
	return flagValue(f.componentFact(component), name, n), name
}

// workersBusy is 1 where a queue's workers are busy: four fifths of them, or half where
// as many items stand before them as they could work at. Of workers whose number is not
// known, so many as were ever seen at work count as all, and more items than they
// work at must be waiting.
func workersBusy(f *Facts, component, queue string) track {
	labels := []string{instance, component, "name", queue}
	work, waits, items := f.sumSeries(working, labels...), f.sumSeries(queued, labels...), f.sumSeries(depth, labels...)
	n, _ := workersOf(f, component, queue)
	known := n > 0
	if !known {
		n = max(1, math.Ceil(slices.Max(append(track{0}, work...))))
	}
	return f.perSlice(func(i int) float64 {
		stands := max(waits.at(i), items.at(i)) >= n
		return oneIf(work.at(i) >= fullFrom*n && (known || stands) || known && stands && work.at(i) >= n/2)
	})
}

// describeQueue is the finding of one queue, without its score.
func describeQueue(f *Facts, component, queue string) Finding {
	labels := []string{instance, component, "name", queue}
	n, name := workersOf(f, component, queue)
	busy := new(1.0)
	have, try := "workers", fmt.Sprintf("Give queue %s more workers.", queue)
	if n > 0 {
		busy = new(n)
		have, try = "of "+unit.Text(n, "workers"), fmt.Sprintf("Give queue %s more workers than %g.", queue, n)
	}
	if name != "" {
		try = fmt.Sprintf("Raise --%s of %s, now %g.", name, component, n)
	}
	return Finding{
		Component: component + " " + queue,
		Sentence: fmt.Sprintf("Work queue %q of %s: %.3g items waiting on average, %.3g %s busy.", queue, component,
			max(f.wholeValue(queued, labels...), f.wholeValue(depth, labels...)), f.wholeValue(working, labels...), have),
		Evidence: []Evidence{
			f.newEvidence(queued, newFigure("items", new(0.0), "items that wait at a time, by those that have left the queue"), labels...),
			f.newEvidence(depth, newFigure("items", new(0.0), "items that wait at a time, as the scrapes saw it"), labels...),
			f.newEvidence(working, newFigure("workers", busy, "workers that are busy at a time, of so many"), labels...),
		},
		Try: try + " If its workers wait for something, the causes before this one say for what.",
	}
}

// findScheduler finds the search for a node, which is done for one pod at a time: the
// share of the time that it takes is how full it is, while there are pods to be
// scheduled. What the scheduler does for a pod around the search takes time as well:
// where more than half goes into searching, with pods waiting, the search is it.
func findScheduler(f *Facts, d delays) []candidate {
	const name = "kube-scheduler"
	search, waits, held, crowded := f.sumSeries(algorithm), f.sumSeries(pending), heldBack(f, name), waitingForCore(f, name)
	finding := Finding{
		Component: name,
		Sentence: fmt.Sprintf("The scheduler searched for nodes in %s of the time, %s for each pod, while %.3g pods waited.",
			formatPercent(f.wholeValue(algorithm)), unit.Text(f.wholeValue(algoMean), "seconds"), f.wholeValue(pending)),
		Evidence: []Evidence{
			f.newEvidence(algorithm, newFigure("ratio", new(searchBound), "share of the time in which a node is searched for")),
			f.newEvidence(algoMean, newFigure("seconds", nil, "mean time of a search")),
			f.newEvidence(pending, newFigure("pods", nil, "pods that wait in the active queue")),
		},
		Try: "Lower percentageOfNodesToScore, drop the plugins that are not needed, or look at pods with costly constraints (inter-pod affinity, topology spread).",
	}
	if s, ok := f.findSeries(plugin); ok {
		what, point := s.Labels["plugin"], s.Labels["extension_point"]
		finding.Sentence += fmt.Sprintf(" Of what its plugins took, %s went into %s of %s.", formatPercent(s.Whole), point, what)
		finding.Evidence = append(finding.Evidence, f.newEvidence(plugin, newFigure("ratio", nil, "the most costly plugin's share of what plugins take in a search")))
		if what == "PodTopologySpread" && point == "PreScore" {
			// It counts the pods of all nodes, whatever share of them is scored, for
			// each pod that a service or a controller selects: spreading is on by default.
			finding.Try = "Where nothing needs to be spread, give PodTopologySpread defaultingType: List and no defaultConstraints: by default it looks at all nodes " +
				"for each pod of a controller, whatever percentageOfNodesToScore is."
		}
	}
	return []candidate{newCandidate(finding, f.perSlice(func(i int) float64 {
		return clampShare(search.at(i)) * clampShare(waits.at(i)) * oneIf(search.at(i) > searchBound) * leftAfter(held.at(i), crowded[i])
	}))}
}

// findLoadLate finds calls of the load generator that were due and not sent.
func findLoadLate(f *Facts, d delays) []candidate {
	return findLateCalls(f, d, "The load generator", f.Load, "Give windtunnel more CPU, or ask for a lower rate: the figures of this run are its own.")
}

// findFleetLate finds calls of the simulated nodes that were due and not sent.
func findFleetLate(f *Facts, d delays) []candidate {
	return findLateCalls(f, d, "The fleet", f.Fleet, "Raise fleet.connections, shorten the way to the API server, give windtunnel more CPU, or simulate fewer nodes.")
}

func findLateCalls(f *Facts, d delays, sender string, w Waiting, try string) []candidate {
	crowded, overdue, in := waitingForCore(f, self), track(w.Overdue), track(w.InFlight)
	return []candidate{newCandidate(Finding{
		Component: self,
		Sentence: fmt.Sprintf("%s sent %s of its %s calls later than they were due, by up to %s: what waited for them was late for windtunnel's sake, not the plane's.",
			sender, unit.Number(float64(w.Late)), unit.Number(float64(w.Calls)), unit.Text(w.Worst.Seconds(), "seconds")),
		Evidence: []Evidence{
			{Value: roundFigure(overdue.mean()), Unit: "calls", Bound: new(0.0), Values: w.Overdue, Sentence: "calls that were overdue at a time, from the records"},
			{Value: roundFigure(w.Worst.Seconds()), Unit: "seconds", Bound: new(record.Late.Round(time.Millisecond).Seconds()), Sentence: "the longest from due to sent"},
		},
		Try: try,
	}, f.perSlice(func(i int) float64 {
		return clampShare(in.at(i)) * shareOf(overdue.at(i), in.at(i)) * leftAfter(d.server[i], crowded[i])
	}))}
}

// findLocks finds goroutines that wait for one another, held against what the
// component does at a time: requests, queue items or pods. They count where one of
// them waits at any time: no lock is full before.
func findLocks(f *Facts, d delays) (out []candidate) {
	for _, name := range f.componentNames(mutex) {
		waits, held, crowded := f.sumSeries(mutex, instance, name), heldBack(f, name), waitingForCore(f, name)
		work := f.sumSeries(working, instance, name)
		switch name {
		case apiServer:
			work = f.sumSeries(requests)
		case "kube-scheduler":
			work = f.sumSeries(attempts)
		}
		finding := Finding{
			Component: name,
			Sentence:  fmt.Sprintf("In %s, %.3g goroutines waited for locks at a time.", name, f.wholeValue(mutex, instance, name)),
			Evidence:  []Evidence{f.newEvidence(mutex, newFigure("goroutines", new(float64(lockBound)), "goroutines that wait for a lock at a time"), instance, name)},
			Try:       fmt.Sprintf("Look at the profiles of %s in profiles/ (go tool pprof), and start it with --contention-profiling for one of its locks.", name),
		}
		if c, ok := f.Contended[name]; ok {
			finding.Sentence += fmt.Sprintf(" The profile has %s of the waiting in %s.", formatPercent(c.Share), c.Where)
			finding.Evidence = append(finding.Evidence, Evidence{Value: roundFigure(c.Seconds), Unit: "seconds", Sentence: "waited for locks in " + c.Where + ", from " + c.File})
		}
		out = append(out, newCandidate(finding, f.perSlice(func(i int) float64 {
			return clampShare(work.at(i)) * shareOf(waits.at(i), work.at(i)) * oneIf(waits.at(i) >= lockBound) * leftAfter(held.at(i), crowded[i])
		})))
	}
	return out
}
