package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// resource is something that can be used up, and how much of it was used.
type resource struct {
	name     string
	use      track // of its limit, in each slice
	evidence Evidence
}

// shownUses are how many of the resources nearest to their limits are evidence.
const shownUses = 3

// findNothing says that nothing was at its limit, and what came nearest; it says
// nothing of a plane of which nothing is known.
func findNothing(f *Facts) []Finding {
	all := listResources(f)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y resource) int { return -cmp.Compare(x.highestUse(), y.highestUse()) })
	first := all[0]
	verdict := "No bottleneck"
	if f.Remote {
		verdict = "No bottleneck among the measured resources"
	}
	finding := Finding{
		Rank: 1, Cause: Nothing,
		Sentence: fmt.Sprintf("%s. Closest to its limit: %s, %s in its busiest %s.",
			verdict, first.name, formatPercent(first.highestUse()), unit.Text(f.Window.Step().Seconds(), "seconds")),
		Try: "Ask for more: windtunnel search finds the largest load that passes.",
	}
	if first.highestUse() >= fullFrom {
		finding.Sentence += " Too little work waited for this to matter."
	}
	for _, r := range all[:min(len(all), shownUses)] {
		finding.Evidence = append(finding.Evidence, r.evidence)
	}
	return []Finding{finding}
}

func (r resource) highestUse() float64 { return slices.Max(append(track{0}, r.use...)) }

// listResources returns those that have a limit, and of which it is known how much was
// used.
func listResources(f *Facts) []resource {
	out := slices.Concat(machineUse(f), componentUses(f), poolUses(f))
	for _, r := range []struct {
		question, name, sentence string
		limit                    float64
	}{
		{fsync, "etcd's log", "share of the time in which the log was synced", fullFrom},
		{commit, "etcd's backend", "share of the time in which the backend was committed", fullFrom},
		{dbShare, "etcd's quota", "share of --quota-backend-bytes", quotaBound},
		{algorithm, "the scheduler's search for nodes", "share of the time in which a node is searched for", searchBound},
	} {
		out = append(out, resourceUse(f, r.question, r.name, 1, newFigure("ratio", new(r.limit), r.sentence))...)
	}
	return out
}

// resourceUse is the resource that a question asks of, with its limit in the same unit;
// none where there is no answer.
func resourceUse(f *Facts, question, name string, limit float64, e Evidence, labels ...string) []resource {
	if _, ok := f.findSeries(question, labels...); !ok || limit <= 0 {
		return nil
	}
	values := f.sumSeries(question, labels...)
	use := f.perSlice(func(i int) float64 { return clampShare(values.at(i) / limit) })
	return []resource{{name, use, f.newEvidence(question, e, labels...)}}
}

func machineUse(f *Facts) []resource {
	name := "the machine's CPU"
	if f.Remote {
		name = "the CPU of windtunnel's own machine"
	}
	return resourceUse(f, busy, name, 1, newFigure("ratio", new(fullFrom), "share of all cores' time that was not idle"))
}

// componentUses are the limits that components were started with, and the rate
// limiters of their clients.
func componentUses(f *Facts) (out []resource) {
	for _, c := range f.Components {
		name := nameComponent(c.Name, false)
		out = append(out, resourceUse(f, coresOf(c.Name), "the CPU limit of "+name, c.CPULimit,
			newFigure("cores", new(c.CPULimit), "cores that "+name+" used"), instance, c.Name)...)
		memory := float64(c.MemoryLimit)
		out = append(out, resourceUse(f, charged, "the memory limit of "+name, memory,
			newFigure("bytes", new(nearLimit*memory), "of the memory of "+name+" at the end"), instance, c.Name)...)
	}
	for _, name := range f.componentNames(throttled) {
		out = append(out, resourceUse(f, throttled, "the rate limiter of "+name, 1,
			newFigure("calls", new(1.0), "calls of "+name+" that wait for its limiter at a time"), instance, name)...)
	}
	return out
}

// poolUses are workers of queues, where it is known how many there are, and seats
// of priority levels.
func poolUses(f *Facts) (out []resource) {
	const level = "priority_level"
	for _, s := range f.Answers[working].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		if n, _ := workersOf(f, component, queue); n > 0 {
			out = append(out, resourceUse(f, working, fmt.Sprintf("the workers of queue %s of %s", queue, component), n,
				newFigure("workers", new(n), "workers of queue "+queue+" that are busy at a time, of so many"), instance, component, "name", queue)...)
		}
	}
	for _, s := range f.Answers[apfUse].Series {
		name := s.Labels[level]
		out = append(out, resourceUse(f, apfUse, "the seats of priority level "+name, 1,
			newFigure("ratio", new(fullFrom), "share of level "+name+"'s seats that were taken"), level, name)...)
	}
	return out
}
