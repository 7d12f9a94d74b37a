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

// limits are components at their CPU limit, and the plane as a whole at its own.
func (b *blame) limits() (out []candidate) {
	for _, name := range b.f.names(held) {
		hold, memory, shared := b.ownThrottling(name), b.starving(name), b.sharedHold(name)
		uneven, scans, passed := b.lopsided(name), b.scannedCPU(name), track(nil)
		if name == apiServer {
			passed = b.passedOn()
		}
		given := ""
		if c := b.f.component(name); c.CPULimit > 0 {
			given = fmt.Sprintf(" of the %.3g that it was started with", c.CPULimit)
		}
		out = append(out, b.candidate(Finding{
			Cause: CPULimit, Component: name,
			Sentence: fmt.Sprintf("%s was held back by its CPU limit in %s of the periods in which it wanted to run, and used %.2g cores%s.",
				called(name, true), percent(b.f.whole(held, instance, name)), b.f.whole(coresOf(name), instance, name), given),
			Evidence: []Evidence{
				b.evidence(held, figure("ratio", bound(0), "share of the CPU controller's periods in which it was throttled"), instance, name),
				b.evidence(coresOf(name), figure("cores", nil, "cores that it used"), instance, name),
			},
			Try: fmt.Sprintf("Give %s a higher CPU limit or none; if that is what it will have in production, this is how far it goes.", called(name, false)),
		}, b.track(func(i int) float64 {
			return hold.at(i) * rest(memory.at(i), shared.at(i), uneven[i], scans[i], passed.at(i))
		})))
	}
	return out
}

// called is what sentences call a component, or all of them together.
func called(name string, begins bool) string {
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

// starving is the share of each slice for which memory held a component up: the
// kernel had to take pages away from it (once a second is all the time), or
// garbage collection took more than its share of the CPU that it used. The latter
// counts where GOMEMLIMIT is reached or the component keeps a core busy: who hardly
// computes collects on time that nobody wants.
func (b *blame) starving(component string) track {
	hits, gc, used := b.sum(limitHits, instance, component), b.sum(collecting, instance, component), b.sum(cpu, instance, component)
	reached := b.sum(goLimit, instance, component)
	return b.track(func(i int) float64 {
		full := where(used.at(i) >= fullFrom || reached.at(i) >= nearLimit)
		excess := portion((gc.at(i)-gcBound)/(1-gcBound)) * portion(used.at(i)) * full
		return max(portion(hits.at(i)), excess)
	})
}

// memory is components short of it.
func (b *blame) memory() (out []candidate) {
	names := b.f.names(collecting)
	for _, name := range append(b.f.names(limitHits), b.f.names(resident)...) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		if slices.ContainsFunc(b.f.Deaths, func(d Death) bool { owner, ok := d.atMemoryLimit(); return ok && owner == name }) {
			continue // killed says it
		}
		c, shared := b.f.component(name), b.sharedHold(name)
		starving, size := b.starving(name), b.sum(charged, instance, name)
		near := func(i int) float64 {
			if c.MemoryLimit == 0 {
				return 0
			}
			return portion((size.at(i)/float64(c.MemoryLimit) - nearLimit) / (1 - nearLimit))
		}
		out = append(out, b.candidate(Finding{
			Cause: Memory, Component: name, Sentence: b.memorySentence(name),
			Evidence: b.memoryEvidence(name),
			Try:      fmt.Sprintf("Give %s more memory, raise GOMEMLIMIT or GOGC, or keep fewer objects: what it keeps grows with them.", called(name, false)) + b.fewerRevisions(name),
		}, b.track(func(i int) float64 { return max(starving[i], near(i)) * rest(shared.at(i)) })))
	}
	return out
}

func (b *blame) memorySentence(name string) string {
	var parts []string
	if gc := b.f.whole(collecting, instance, name); gc > gcBound {
		parts = append(parts, fmt.Sprintf("spent %s of the CPU that it used on collecting garbage", percent(gc)))
	}
	if hits := b.f.whole(limitHits, instance, name); hits > 0 {
		parts = append(parts, fmt.Sprintf("ran into its memory limit %.3g times a second", hits))
	}
	if limit := b.f.component(name).MemoryLimit; limit > 0 {
		parts = append(parts, fmt.Sprintf("had %s of at most %s", unit.Text(b.f.whole(charged, instance, name), "bytes"), unit.Text(float64(limit), "bytes")))
	}
	if len(parts) == 0 {
		parts = []string{"was short of memory in a part of the time"}
	}
	return called(name, true) + " " + strings.Join(parts, ", and ") + "."
}

func (b *blame) memoryEvidence(name string) (out []Evidence) {
	found := func(question string, e Evidence) {
		if _, ok := b.f.find(question, instance, name); ok {
			out = append(out, b.evidence(question, e, instance, name))
		}
	}
	found(collecting, figure("ratio", bound(gcBound), "garbage collection's share of the CPU used"))
	found(limitHits, figure("1/s", bound(0), "times that the kernel ran into the memory limit"))
	var most *float64
	if limit := b.f.component(name).MemoryLimit; limit > 0 {
		most = bound(nearLimit * float64(limit))
	}
	found(charged, figure("bytes", most, "of its cgroup's memory at the end, without files that nobody has looked at lately"))
	out = append(out, b.ofRevisions(name)...)
	if name != record.WholePlane {
		found(resident, figure("bytes", nil, "resident at the end, with what other cgroups are charged with"))
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

// killed are components that were killed at their memory limit: nothing came
// after that. What filled it is told by what was measured until then, if anything was.
func killed(f *Facts, b *blame) (out []candidate) {
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
			Evidence: []Evidence{{Value: float64(f.component(owner).MemoryLimit), Unit: "bytes", Sentence: limit + "; logs/ has its last words"}},
			Try:      fmt.Sprintf("Give %s more memory, or set GOMEMLIMIT to nine tenths of the limit, so that it collects garbage before it is killed.", called(owner, false)),
		}
		if b != nil {
			finding.Evidence = answered(append(finding.Evidence, b.memoryEvidence(owner)...))
			finding.Try += b.fewerRevisions(d.Component)
		}
		out = append(out, candidate{Finding: finding})
	}
	return out
}

// machine is what is left of the time for which threads waited for a core of a full
// machine: what no other cause explains.
func (b *blame) machine(others []candidate) []candidate {
	if len(b.f.Answers[busy].Series) == 0 {
		return nil
	}
	if b.f.Remote {
		return b.ownMachine()
	}
	left := b.track(func(i int) float64 {
		most := 0.0
		for _, c := range others {
			if !c.computes { // from those the machine's part has been taken off
				most = max(most, c.share.at(i))
			}
		}
		return b.crowded[i] * rest(most)
	})
	use := b.f.whole(busy)
	whose, foreign := b.hungriest()
	try := "Fly on more cores, or ask for less; before that, see in profiles/ what the hungriest component spends them on."
	if foreign {
		try = "Stop other workloads on this machine, or run elsewhere."
	}
	evidence := []Evidence{b.evidence(busy, figure("ratio", bound(fullFrom), "share of all cores' time that was not idle"))}
	if _, ok := b.f.Answers[waiting]; ok {
		evidence = append(evidence, b.evidence(waiting, figure("threads", nil, "threads of kube-apiserver that were ready to run and had no core, at a time"), instance, apiServer))
	}
	return []candidate{b.candidate(Finding{
		Cause:    Machine,
		Sentence: fmt.Sprintf("The machine's %s %s busy for %s of the time; most of it was used by %s.", unit.Count(b.f.Machine.Cores, "cores"), unit.Verb(b.f.Machine.Cores, "was", "were"), percent(use), whose),
		Evidence: evidence,
		Try:      try,
	}, left)}
}

// ownMachine is windtunnel's, where the plane is elsewhere.
func (b *blame) ownMachine() []candidate {
	return []candidate{b.candidate(Finding{
		Cause: Machine, Component: self,
		Sentence: fmt.Sprintf("The %s of windtunnel's own machine %s busy for %s of the time.", unit.Count(b.f.Machine.Cores, "cores"), unit.Verb(b.f.Machine.Cores, "was", "were"), percent(b.f.whole(busy))),
		Evidence: []Evidence{
			b.evidence(busy, figure("ratio", bound(fullFrom), "share of all cores' time that was not idle")),
			b.evidence(waiting, figure("threads", nil, "threads of windtunnel that were ready to run and had no core, at a time"), instance, self),
		},
		Try: "Run from another machine, or stop other workloads on this one.",
	}, b.crowd(self))}
}

// hungriest names who used most CPU, and whether those were others.
func (b *blame) hungriest() (name string, foreign bool) {
	name = "nobody who was measured"
	most, known := 0.0, 0.0
	for _, s := range b.f.Answers[cpu].Series {
		if known += s.Whole; s.Whole > most {
			name, most = fmt.Sprintf("%s (%.2f cores)", s.Labels[instance], s.Whole), s.Whole
		}
	}
	if rest := b.f.whole(busy)*float64(b.f.Machine.Cores) - known; rest > most {
		return "processes other than the plane and windtunnel", true
	}
	return name, false
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
