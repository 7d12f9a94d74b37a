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

// nothing says that nothing was at its limit, and what came nearest; it says
// nothing of a plane of which nothing is known.
func (b *blame) nothing() []Finding {
	all := b.resources()
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y resource) int { return -cmp.Compare(x.most(), y.most()) })
	first := all[0]
	verdict := "No bottleneck"
	if b.f.Remote {
		verdict = "No bottleneck among the measured resources"
	}
	f := Finding{
		Rank: 1, Cause: Nothing,
		Sentence: fmt.Sprintf("%s. Closest to its limit: %s, %s in its busiest %s.",
			verdict, first.name, percent(first.most()), unit.Text(b.f.Window.Step().Seconds(), "seconds")),
		Try: "Ask for more: windtunnel search finds the largest load that passes.",
	}
	if first.most() >= fullFrom {
		f.Sentence += " Too little work waited for this to matter."
	}
	for _, r := range all[:min(len(all), shownUses)] {
		f.Evidence = append(f.Evidence, r.evidence)
	}
	return []Finding{f}
}

func (r resource) most() float64 { return slices.Max(append(track{0}, r.use...)) }

// resources are those that have a limit, and of which it is known how much was
// used.
func (b *blame) resources() []resource {
	out := slices.Concat(b.machineUse(), b.componentUses(), b.poolUses())
	for _, r := range []struct {
		question, name, sentence string
		limit                    float64
	}{
		{fsync, "etcd's log", "share of the time in which the log was synced", fullFrom},
		{commit, "etcd's backend", "share of the time in which the backend was committed", fullFrom},
		{dbShare, "etcd's quota", "share of --quota-backend-bytes", quotaBound},
		{algorithm, "the scheduler's search for nodes", "share of the time in which a node is searched for", searchBound},
	} {
		out = append(out, b.used(r.question, r.name, 1, figure("ratio", bound(r.limit), r.sentence))...)
	}
	return out
}

// used is the resource that a question asks of, with its limit in the same unit;
// none where there is no answer.
func (b *blame) used(question, name string, limit float64, e Evidence, labels ...string) []resource {
	if _, ok := b.f.find(question, labels...); !ok || limit <= 0 {
		return nil
	}
	values := b.sum(question, labels...)
	use := b.track(func(i int) float64 { return portion(values.at(i) / limit) })
	return []resource{{name, use, b.evidence(question, e, labels...)}}
}

func (b *blame) machineUse() []resource {
	name := "the machine's CPU"
	if b.f.Remote {
		name = "the CPU of windtunnel's own machine"
	}
	return b.used(busy, name, 1, figure("ratio", bound(fullFrom), "share of all cores' time that was not idle"))
}

// componentUses are the limits that components were started with, and the rate
// limiters of their clients.
func (b *blame) componentUses() (out []resource) {
	for _, c := range b.f.Components {
		name := called(c.Name, false)
		out = append(out, b.used(coresOf(c.Name), "the CPU limit of "+name, c.CPULimit,
			figure("cores", bound(c.CPULimit), "cores that "+name+" used"), instance, c.Name)...)
		memory := float64(c.MemoryLimit)
		out = append(out, b.used(charged, "the memory limit of "+name, memory,
			figure("bytes", bound(nearLimit*memory), "of the memory of "+name+" at the end"), instance, c.Name)...)
	}
	for _, name := range b.f.names(throttled) {
		out = append(out, b.used(throttled, "the rate limiter of "+name, 1,
			figure("calls", bound(1), "calls of "+name+" that wait for its limiter at a time"), instance, name)...)
	}
	return out
}

// poolUses are workers of queues, where it is known how many there are, and seats
// of priority levels.
func (b *blame) poolUses() (out []resource) {
	const level = "priority_level"
	for _, s := range b.f.Answers[working].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		if n, _ := b.workersOf(component, queue); n > 0 {
			out = append(out, b.used(working, fmt.Sprintf("the workers of queue %s of %s", queue, component), n,
				figure("workers", bound(n), "workers of queue "+queue+" that are busy at a time, of so many"), instance, component, "name", queue)...)
		}
	}
	for _, s := range b.f.Answers[apfUse].Series {
		name := s.Labels[level]
		out = append(out, b.used(apfUse, "the seats of priority level "+name, 1,
			figure("ratio", bound(fullFrom), "share of level "+name+"'s seats that were taken"), level, name)...)
	}
	return out
}
