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
)

// clients are components that wait for their own rate limiter. Nothing else can
// shorten that. While its bucket is empty it lets calls go at its rate, so that it
// was empty for no more of the time than the calls that went are of those that
// could have gone, however many of them stood before it at a time.
func (b *blame) clients() (out []candidate) {
	for _, name := range b.f.names(throttled) {
		waits, went := b.sum(throttled, instance, name), b.sum(paced, instance, name)
		qps, burst, raise := limiterOf(b.f.component(name))
		setting := ""
		switch {
		case qps > 0 && burst > 0:
			setting = fmt.Sprintf(" (qps %g, burst %g)", qps, burst)
		case qps > 0:
			setting = fmt.Sprintf(" (qps %g)", qps)
		}
		out = append(out, b.candidate(Finding{
			Cause: ClientThrottle, Component: name,
			Sentence: fmt.Sprintf("On average %.3[3]g requests were queued in the client-side rate limiter of %[1]s%[2]s; it sent %.3[4]g requests/s.",
				name, setting, b.f.whole(throttled, instance, name), b.f.whole(paced, instance, name)),
			Evidence: []Evidence{
				b.evidence(throttled, figure("calls", bound(0), "requests queued in the limiter, on average"), instance, name),
				b.evidence(paced, figure("1/s", rateBound(qps), "requests that passed the limiter; each client of the component has its own"), instance, name),
			},
			Try: fmt.Sprintf("Raise %s of %s, and see that API priority and fairness protects the server from it.", raise, name),
		}, b.track(func(i int) float64 {
			if qps <= 0 {
				return portion(waits.at(i))
			}
			return min(portion(waits.at(i)), portion(went.at(i)/qps))
		})))
	}
	return out
}

func rateBound(qps float64) *float64 {
	if qps <= 0 {
		return nil
	}
	return &qps
}

// limiterOf is the rate limit of a component's client, and what raises it. A
// configuration file has the last word: flags beside it are ignored. 0: it is not known.
func limiterOf(c record.ComponentFact) (qps, burst float64, raise string) {
	if c.Client != nil || given(c, "config") {
		if c.Client != nil {
			qps, burst = c.Client.QPS, c.Client.Burst
		}
		return qps, burst, "clientConnection.qps and clientConnection.burst in the file of --config"
	}
	if qps, burst = limiter(c.Name); qps > 0 {
		return flag(c, "kube-api-qps", qps), flag(c, "kube-api-burst", burst), "--kube-api-qps and --kube-api-burst"
	}
	return 0, 0, "the client's qps and burst"
}

// limiter is what Kubernetes gives a component where no flag says otherwise.
func limiter(component string) (qps, burst float64) {
	switch component {
	case "kube-controller-manager":
		return 20, 30
	case "kube-scheduler":
		return 50, 100
	}
	return 0, 0
}

// workers is the flag that says how many take from a queue, and its default.
func workers(queue string) (name string, otherwise float64) {
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

// queues are work queues. An item waits in one for its workers' sake only while
// every one of them is busy: where they are not, more of them change nothing. What
// the workers themselves wait for is taken off: the rate limiter of their component,
// and of their calls what holds up the API server; what computes takes longer where no
// core is free.
func (b *blame) queues() (out []candidate) {
	for _, s := range b.f.Answers[queued].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		all, long := b.congestion(component, queue), b.inStage(component)
		share := b.track(func(i int) float64 { return all[i] * rest(long[i]) })
		if share.mean() < least {
			continue
		}
		out = append(out, b.computing(b.queue(component, queue), share))
	}
	return out
}

// congestion is the share of each slice in which items wait for busy workers for no
// deeper reason.
func (b *blame) congestion(component, queue string) track {
	work, tokens, calls := b.sum(working, instance, component), b.sum(throttled, instance, component), b.sum(asking, instance, component)
	stands, held, way, scans := b.standing(component, queue), b.held(component), b.away(component), b.scanned(component)
	_, ceiling := b.ceiling(component)
	return b.track(func(i int) float64 {
		limited := of(tokens.at(i), work.at(i))
		called := of(calls.at(i)-tokens.at(i), work.at(i))
		return stands[i] * rest(limited, called*b.server[i], held.at(i), b.crowded[i], way[i], scans[i], ceiling[i])
	})
}

// workersOf returns how many take from a queue, and the flag that says so; 0 where
// that is not known.
func (b *blame) workersOf(component, queue string) (n float64, name string) {
	if s, ok := b.f.find(reconcilers, instance, component, "controller", queue); ok {
		return s.Whole, ""
	}
	name, n = workers(queue)
	if name == "" {
		return 0, ""
	}
	return flag(b.f.component(component), name, n), name
}

// occupied is 1 where a queue's workers are busy: four fifths of them, or half where
// as many items stand before them as they could work at. Of workers whose number is not
// known, so many as were ever seen at work count as all, and more items than they
// work at must be waiting.
func (b *blame) occupied(component, queue string) track {
	labels := []string{instance, component, "name", queue}
	work, waits, items := b.sum(working, labels...), b.sum(queued, labels...), b.sum(depth, labels...)
	n, _ := b.workersOf(component, queue)
	known := n > 0
	if !known {
		n = max(1, math.Ceil(slices.Max(append(track{0}, work...))))
	}
	return b.track(func(i int) float64 {
		stands := max(waits.at(i), items.at(i)) >= n
		return where(work.at(i) >= fullFrom*n && (known || stands) || known && stands && work.at(i) >= n/2)
	})
}

// queue is the finding of one queue, without its score.
func (b *blame) queue(component, queue string) Finding {
	labels := []string{instance, component, "name", queue}
	n, name := b.workersOf(component, queue)
	busy := bound(1)
	have, try := "workers", fmt.Sprintf("Give queue %s more workers.", queue)
	if n > 0 {
		busy = bound(n)
		have, try = "of "+unit.Text(n, "workers"), fmt.Sprintf("Give queue %s more workers than %g.", queue, n)
	}
	if name != "" {
		try = fmt.Sprintf("Raise --%s of %s, now %g.", name, component, n)
	}
	return Finding{
		Cause: WorkQueue, Component: component + " " + queue,
		Sentence: fmt.Sprintf("Work queue %q of %s: %.3g items waiting on average, %.3g %s busy.", queue, component,
			max(b.f.whole(queued, labels...), b.f.whole(depth, labels...)), b.f.whole(working, labels...), have),
		Evidence: []Evidence{
			b.evidence(queued, figure("items", bound(0), "items that wait at a time, by those that have left the queue"), labels...),
			b.evidence(depth, figure("items", bound(0), "items that wait at a time, as the scrapes saw it"), labels...),
			b.evidence(working, figure("workers", busy, "workers that are busy at a time, of so many"), labels...),
		},
		Try: try + " If its workers wait for something, the causes before this one say for what.",
	}
}

// scheduler is the search for a node, which is done for one pod at a time: the
// share of the time that it takes is how full it is, while there are pods to be
// scheduled. What the scheduler does for a pod around the search takes time as well:
// where more than half goes into searching, with pods waiting, the search is it.
func (b *blame) scheduler() []candidate {
	const name = "kube-scheduler"
	search, waits, held, crowded := b.sum(algorithm), b.sum(pending), b.held(name), b.crowd(name)
	f := Finding{
		Cause: Scheduler, Component: name,
		Sentence: fmt.Sprintf("The scheduler searched for nodes in %s of the time, %s for each pod, while %.3g pods waited.",
			percent(b.f.whole(algorithm)), unit.Text(b.f.whole(algoMean), "seconds"), b.f.whole(pending)),
		Evidence: []Evidence{
			b.evidence(algorithm, figure("ratio", bound(searchBound), "share of the time in which a node is searched for")),
			b.evidence(algoMean, figure("seconds", nil, "mean time of a search")),
			b.evidence(pending, figure("pods", nil, "pods that wait in the active queue")),
		},
		Try: "Lower percentageOfNodesToScore, drop the plugins that are not needed, or look at pods with costly constraints (inter-pod affinity, topology spread).",
	}
	if s, ok := b.f.find(plugin); ok {
		what, point := s.Labels["plugin"], s.Labels["extension_point"]
		f.Sentence += fmt.Sprintf(" Of what its plugins took, %s went into %s of %s.", percent(s.Whole), point, what)
		f.Evidence = append(f.Evidence, b.evidence(plugin, figure("ratio", nil, "the most costly plugin's share of what plugins take in a search")))
		if what == "PodTopologySpread" && point == "PreScore" {
			// It counts the pods of all nodes, whatever share of them is scored, for
			// each pod that a service or a controller selects: spreading is on by default.
			f.Try = "Where nothing needs to be spread, give PodTopologySpread defaultingType: List and no defaultConstraints: by default it looks at all nodes " +
				"for each pod of a controller, whatever percentageOfNodesToScore is."
		}
	}
	return []candidate{b.computing(f, b.track(func(i int) float64 {
		return portion(search.at(i)) * portion(waits.at(i)) * where(search.at(i) > searchBound) * rest(held.at(i), crowded[i])
	}))}
}

// instrument is windtunnel itself: calls that were due and not sent.
func (b *blame) instrument() []candidate {
	crowded := b.crowd(self)
	share := func(w Waiting) track {
		overdue, in := track(w.Overdue), track(w.InFlight)
		return b.track(func(i int) float64 {
			return portion(in.at(i)) * of(overdue.at(i), in.at(i)) * rest(b.server[i], crowded[i])
		})
	}
	finding := func(c Cause, who string, w Waiting, try string) Finding {
		return Finding{
			Cause: c, Component: self,
			Sentence: fmt.Sprintf("%s sent %s of its %s calls later than they were due, by up to %s: what waited for them was late for windtunnel's sake, not the plane's.",
				who, unit.Number(float64(w.Late)), unit.Number(float64(w.Calls)), unit.Text(w.Worst.Seconds(), "seconds")),
			Evidence: []Evidence{
				{Value: short(track(w.Overdue).mean()), Unit: "calls", Bound: bound(0), Values: w.Overdue, Sentence: "calls that were overdue at a time, from the records"},
				{Value: short(w.Worst.Seconds()), Unit: "seconds", Bound: bound(record.Late.Round(time.Millisecond).Seconds()), Sentence: "the longest from due to sent"},
			},
			Try: try,
		}
	}
	return []candidate{
		b.computing(finding(LoadLate, "The load generator", b.f.Load, "Give windtunnel more CPU, or ask for a lower rate: the figures of this run are its own."), share(b.f.Load)),
		b.computing(finding(FleetLate, "The fleet", b.f.Fleet, "Raise fleet.connections, shorten the way to the API server, give windtunnel more CPU, or simulate fewer nodes."), share(b.f.Fleet)),
	}
}

// locks are goroutines that wait for one another, held against what the
// component does at a time: requests, queue items or pods. They count where one of
// them waits at any time: no lock is full before.
func (b *blame) locks() (out []candidate) {
	for _, name := range b.f.names(mutex) {
		waits, held, crowded := b.sum(mutex, instance, name), b.held(name), b.crowd(name)
		work := b.sum(working, instance, name)
		switch name {
		case apiServer:
			work = b.sum(requests)
		case "kube-scheduler":
			work = b.sum(attempts)
		}
		f := Finding{
			Cause: Locks, Component: name,
			Sentence: fmt.Sprintf("In %s, %.3g goroutines waited for locks at a time.", name, b.f.whole(mutex, instance, name)),
			Evidence: []Evidence{b.evidence(mutex, figure("goroutines", bound(lockBound), "goroutines that wait for a lock at a time"), instance, name)},
			Try:      fmt.Sprintf("Look at the profiles of %s in profiles/ (go tool pprof), and start it with --contention-profiling for one of its locks.", name),
		}
		if c, ok := b.f.Contended[name]; ok {
			f.Sentence += fmt.Sprintf(" The profile has %s of the waiting in %s.", percent(c.Share), c.Where)
			f.Evidence = append(f.Evidence, Evidence{Value: short(c.Seconds), Unit: "seconds", Sentence: "waited for locks in " + c.Where + ", from " + c.File})
		}
		out = append(out, b.computing(f, b.track(func(i int) float64 {
			return portion(work.at(i)) * of(waits.at(i), work.at(i)) * where(waits.at(i) >= lockBound) * rest(held.at(i), crowded[i])
		})))
	}
	return out
}
