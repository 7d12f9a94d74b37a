package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Bounds of what a component does with its own CPU and memory.
const (
	// gcBound is the share of the CPU used that collecting garbage may take: Go's
	// pacer aims at a quarter of all Ps while a cycle runs. More over a whole slice
	// means that cycles follow one another. What is collected on cores that the
	// program itself has to spare is counted too: others may want them.
	gcBound = 0.25
	// cpuPeriod is the CPU controller's period, in seconds.
	cpuPeriod = 0.1
	// nearLimit is the share of a memory limit from which on it is near.
	nearLimit = 0.9
)

// findCPULimit finds components at their CPU limit, and the plane as a whole at its own.
func findCPULimit(f *Facts, d delays) (out []candidate) {
	for _, name := range f.componentNames(held) {
		hold, memory, shared := ownThrottledShare(f, name), shortOfMemory(f, name), heldBackByPlane(f, name)
		uneven, scans, passed := excessOverReplicas(f, name), scanShareOfCPU(f, name), track(nil)
		if name == apiServer {
			passed = proxiedShare(f)
		}
		given := ""
		if c := f.componentFact(name); c.CPULimit > 0 {
			given = fmt.Sprintf(" of the %.3g that it was started with", c.CPULimit)
		}
		out = append(out, newCandidate(Finding{
			Component: name,
			Sentence: fmt.Sprintf("%s was held back by its CPU limit in %s of the periods in which it wanted to run, and used %.2g cores%s.",
				nameComponent(name, true), formatPercent(f.wholeValue(held, instance, name)), f.wholeValue(coresOf(name), instance, name), given),
			Evidence: []Evidence{
				f.newEvidence(held, newFigure("ratio", new(0.0), "share of the CPU controller's periods in which it was throttled"), instance, name),
				f.newEvidence(coresOf(name), newFigure("cores", nil, "cores that it used"), instance, name),
			},
			Try: fmt.Sprintf("Give %s a higher CPU limit or none; if that is what it will have in production, this is how far it goes.", nameComponent(name, false)),
		}, f.perSlice(func(i int) float64 {
			return hold.at(i) * leftAfter(memory.at(i), shared.at(i), uneven[i], scans[i], passed.at(i))
		})))
	}
	return out
}

// nameComponent is what sentences call a component, or all of them together.
func nameComponent(name string, begins bool) string {
	switch {
	case name != record.WholePlane:
		return name
	case begins:
		return "The plane as a whole"
	}
	return "the plane as a whole"
}

// coresOf is the question of how many cores a component used, or all of them together.
func coresOf(name string) string {
	if name == record.WholePlane {
		return planeCPU
	}
	return cpu
}

// shortOfMemory is the share of each slice for which memory held a component up: the
// kernel had to take pages away from it (once a second is all the time), or
// garbage collection took more than its share of the CPU that it used. The latter
// counts where GOMEMLIMIT is reached or the component keeps a core busy: who hardly
// computes collects on time that nobody wants.
func shortOfMemory(f *Facts, component string) track {
	hits, gc, used := f.sumSeries(limitHits, instance, component), f.sumSeries(collecting, instance, component), f.sumSeries(cpu, instance, component)
	reached := f.sumSeries(goLimit, instance, component)
	return f.perSlice(func(i int) float64 {
		full := oneIf(used.at(i) >= fullFrom || reached.at(i) >= nearLimit)
		excess := clampShare((gc.at(i)-gcBound)/(1-gcBound)) * clampShare(used.at(i)) * full
		return max(clampShare(hits.at(i)), excess)
	})
}

// findMemory finds components short of it.
func findMemory(f *Facts, d delays) (out []candidate) {
	names := f.componentNames(collecting)
	for _, name := range append(f.componentNames(limitHits), f.componentNames(resident)...) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(f.Deaths, func(d Death) bool { owner, ok := d.atMemoryLimit(); return ok && owner == name }) {
			continue // killed says it
		}
		c, shared := f.componentFact(name), heldBackByPlane(f, name)
		starving, size := shortOfMemory(f, name), f.sumSeries(charged, instance, name)
		near := func(i int) float64 {
			if c.MemoryLimit == 0 {
				return 0
			}
			return clampShare((size.at(i)/float64(c.MemoryLimit) - nearLimit) / (1 - nearLimit))
		}
		out = append(out, newCandidate(Finding{
			Component: name, Sentence: describeMemory(f, name),
			Evidence: memoryEvidence(f, name),
			Try:      fmt.Sprintf("Give %s more memory, raise GOMEMLIMIT or GOGC, or keep fewer objects: what it keeps grows with them.", nameComponent(name, false)) + adviseFewerRevisions(f, name),
		}, f.perSlice(func(i int) float64 { return max(starving[i], near(i)) * leftAfter(shared.at(i)) })))
	}
	return out
}

func describeMemory(f *Facts, name string) string {
	var parts []string
	if gc := f.wholeValue(collecting, instance, name); gc > gcBound {
		parts = append(parts, fmt.Sprintf("spent %s of the CPU that it used on collecting garbage", formatPercent(gc)))
	}
	if hits := f.wholeValue(limitHits, instance, name); hits > 0 {
		parts = append(parts, fmt.Sprintf("ran into its memory limit %.3g times a second", hits))
	}
	if limit := f.componentFact(name).MemoryLimit; limit > 0 {
		parts = append(parts, fmt.Sprintf("had %s of at most %s", unit.Text(f.wholeValue(charged, instance, name), "bytes"), unit.Text(float64(limit), "bytes")))
	}
	if len(parts) == 0 {
		parts = []string{"was short of memory in a part of the time"}
	}
	return nameComponent(name, true) + " " + strings.Join(parts, ", and ") + "."
}

func memoryEvidence(f *Facts, name string) (out []Evidence) {
	found := func(question string, e Evidence) {
		if _, ok := f.findSeries(question, instance, name); ok {
			out = append(out, f.newEvidence(question, e, instance, name))
		}
	}
	found(collecting, newFigure("ratio", new(gcBound), "garbage collection's share of the CPU used"))
	found(limitHits, newFigure("1/s", new(0.0), "times that the kernel ran into the memory limit"))
	var most *float64
	if limit := f.componentFact(name).MemoryLimit; limit > 0 {
		most = new(nearLimit * float64(limit))
	}
	found(charged, newFigure("bytes", most, "of its cgroup's memory at the end, without files that nobody has looked at lately"))
	out = append(out, revisionEvidence(f, name)...)
	if name != record.WholePlane {
		found(resident, newFigure("bytes", nil, "resident at the end, with what other cgroups are charged with"))
	}
	return out
}

// atMemoryLimit says whether a death was at a memory limit, and whose it was: the
// component's own, or that of the plane as a whole.
func (d Death) atMemoryLimit() (owner string, ok bool) {
	if d.Limit == record.PlaneLimit {
		return record.WholePlane, true
	}
	return d.Component, d.Limit != ""
}

// findKilled finds components that were killed at their memory limit: nothing came
// after that. What filled it is told by what was measured until then, if anything was.
func findKilled(f *Facts, observed bool) (out []candidate) {
	for _, d := range f.Deaths {
		owner, ok := d.atMemoryLimit()
		if !ok {
			continue
		}
		limit := "its memory limit"
		if owner == record.WholePlane {
			limit = "the memory limit of the plane"
		}
		finding := Finding{
			Cause: Memory, Component: d.Component, Score: 1,
			Sentence: fmt.Sprintf("%s was killed at %s, and the run ended there.", d.Component, limit),
			Evidence: []Evidence{{Value: float64(f.componentFact(owner).MemoryLimit), Unit: "bytes", Sentence: limit + "; logs/ has its last words"}},
			Try:      fmt.Sprintf("Give %s more memory, or set GOMEMLIMIT to nine tenths of the limit, so that it collects garbage before it is killed.", nameComponent(owner, false)),
		}
		if observed {
			finding.Evidence = dropUnanswered(append(finding.Evidence, memoryEvidence(f, owner)...))
			finding.Try += adviseFewerRevisions(f, d.Component)
		}
		out = append(out, candidate{Finding: finding})
	}
	return out
}

// findMachine finds what is left of the time for which threads waited for a core of a full
// machine: what no other cause explains.
func findMachine(f *Facts, d delays, others []candidate) []candidate {
	if len(f.Answers[busy].Series) == 0 {
		return nil
	}
	if f.Remote {
		return findOwnMachine(f)
	}
	left := f.perSlice(func(i int) float64 {
		most := 0.0
		for _, c := range others {
			if !c.computes { // from those the machine's part has been taken off
				most = max(most, c.share.at(i))
			}
		}
		return d.crowded[i] * leftAfter(most)
	})
	use := f.wholeValue(busy)
	whose, foreign := largestCPUUser(f)
	try := "Fly on more cores, or ask for less; before that, see in profiles/ what the hungriest component spends them on."
	if foreign {
		try = "Stop other workloads on this machine, or run elsewhere."
	}
	evidence := []Evidence{f.newEvidence(busy, newFigure("ratio", new(fullFrom), "share of all cores' time that was not idle"))}
	if _, ok := f.Answers[waiting]; ok {
		evidence = append(evidence, f.newEvidence(waiting, newFigure("threads", nil, "threads of kube-apiserver that were ready to run and had no core, at a time"), instance, apiServer))
	}
	return []candidate{newCandidate(Finding{
		Cause:    Machine,
		Sentence: fmt.Sprintf("The machine's %s %s busy for %s of the time; most of it was used by %s.", unit.Count(f.Machine.Cores, "cores"), unit.Verb(f.Machine.Cores, "was", "were"), formatPercent(use), whose),
		Evidence: evidence,
		Try:      try,
	}, left)}
}

// findOwnMachine looks at windtunnel's machine, where the plane runs elsewhere.
func findOwnMachine(f *Facts) []candidate {
	return []candidate{newCandidate(Finding{
		Cause: Machine, Component: self,
		Sentence: fmt.Sprintf("The %s of windtunnel's own machine %s busy for %s of the time.", unit.Count(f.Machine.Cores, "cores"), unit.Verb(f.Machine.Cores, "was", "were"), formatPercent(f.wholeValue(busy))),
		Evidence: []Evidence{
			f.newEvidence(busy, newFigure("ratio", new(fullFrom), "share of all cores' time that was not idle")),
			f.newEvidence(waiting, newFigure("threads", nil, "threads of windtunnel that were ready to run and had no core, at a time"), instance, self),
		},
		Try: "Run from another machine, or stop other workloads on this one.",
	}, waitingForCore(f, self))}
}

// largestCPUUser names who used most CPU, and whether those were others.
func largestCPUUser(f *Facts) (name string, foreign bool) {
	name = "nobody who was measured"
	most, known := 0.0, 0.0
	for _, s := range f.Answers[cpu].Series {
		if known += s.Whole; s.Whole > most {
			name, most = fmt.Sprintf("%s (%.2f cores)", s.Labels[instance], s.Whole), s.Whole
		}
	}
	if rest := f.wholeValue(busy)*float64(f.Machine.Cores) - known; rest > most {
		return "processes other than the plane and windtunnel", true
	}
	return name, false
}

func formatPercent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
