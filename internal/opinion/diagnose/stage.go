package diagnose

import (
	"fmt"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// stageBound is the share of a component's work from which on one stage of it is what
// its workers do: more than all others together.
const stageBound = 0.5

// longestStage is the stage of a component's work that takes most of it, with its share;
// empty where it counts none.
func (b *blame) longestStage(component string) (name string, share float64) {
	s, ok := b.f.find(stage, instance, component)
	if !ok {
		return "", 0
	}
	return s.Labels["stage"], s.Whole
}

// inStage is the share of a component's work that goes into its longest stage, where
// that is more than half of it.
func (b *blame) inStage(component string) track {
	name, share := b.longestStage(component)
	long := b.sum(stage, instance, component, "stage", name)
	return b.track(func(i int) float64 { return portion(long.at(i)) * where(share > stageBound && long.at(i) > stageBound) })
}

// stages are workers that are busy with one stage of what they do, while items wait
// for them: it explains that part of the wait, and the number of workers the rest.
func (b *blame) stages() (out []candidate) {
	for _, s := range b.f.Answers[queued].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		name, part := b.longestStage(component)
		if part <= stageBound {
			continue
		}
		all, long := b.congestion(component, queue), b.inStage(component)
		share := b.track(func(i int) float64 { return all[i] * long[i] })
		if share.mean() < least {
			continue
		}
		labels := []string{instance, component, "name", queue}
		n, _ := b.workersOf(component, queue)
		out = append(out, b.computing(Finding{
			Cause: Stage, Component: component,
			Sentence: fmt.Sprintf("Of what the workers of %s did, %s went into stage %s, while %.3g items waited for them at a time.",
				component, percent(part), name, max(b.f.whole(queued, labels...), b.f.whole(depth, labels...))),
			Evidence: []Evidence{
				b.evidence(stage, figure("ratio", bound(stageBound), "that stage's share of the time of all passes"), instance, component, "stage", name),
				b.evidence(working, figure("workers", boundOf(n), "workers that are busy at a time, of so many"), labels...),
				b.evidence(queued, figure("items", bound(0), "items that wait at a time, by those that have left the queue"), labels...),
			},
			Try: shorten(name) + " Or give queue " + queue + " more workers" + beyondNow(n) + ".",
		}, share))
	}
	return out
}

func beyondNow(n float64) string {
	if n <= 0 {
		return ""
	}
	return " than " + unit.Number(n)
}

// shorten says what makes a stage of a pass over an application shorter.
func shorten(stage string) string {
	switch stage {
	case "state-keep":
		return "Look at more objects of an application at the same time (--max-dispatch-concurrent), or less often (--application-re-sync-period)."
	case "apply-apprev", "update-apprev-status", "gc-rev":
		return "Write revisions only where they differ (--skip-equal-revision), and keep fewer of them (--application-revision-limit)."
	case "gc-rt":
		return "Collect garbage once in a pass (--gc-passes=1), and find trackers by an index (--optimize-list-op): what an update no longer holds is deleted one after the other."
	case "generate-appfile", "generate-app-steps", "prepare-current-apprev":
		return "See what of parsing and rendering can be left out: smaller templates, fewer components."
	case "execute-workflow":
		return "See what its steps wait for (the status of an application names them), and what of publishing can be left out: the dry run, the second look at health."
	}
	return "See whether it can be done less often, or in parallel."
}

// keptRevisions is how many ApplicationRevisions a component caches, and the question
// that says so: 0 of one that neither makes any nor counts stages of applications. The
// API server counts once a minute, and what was killed before that has its own count.
func (b *blame) keptRevisions(component string) (n float64, question string) {
	name, _ := b.longestStage(component)
	made, makes := b.f.find(madeRevisions, instance, component)
	if name == "" && !makes {
		return 0, ""
	}
	if n := b.f.whole(revisions); n > 0 {
		return n, revisions
	}
	return made.Whole, madeRevisions
}

// ofRevisions is the evidence that revisions fill a component's memory; none of one
// that caches none.
func (b *blame) ofRevisions(component string) []Evidence {
	switch n, question := b.keptRevisions(component); {
	case n <= 0:
		return nil
	case question == revisions:
		return []Evidence{b.evidence(revisions, figure("objects", nil, "revisions at most, each with a copy of the definitions that it uses"))}
	}
	return []Evidence{b.evidence(madeRevisions, figure("objects", nil, "revisions that it made and did not delete again, each with a copy of the definitions that it uses"), instance, component)}
}

// fewerRevisions is what to do about the memory of such a component.
func (b *blame) fewerRevisions(component string) string {
	n, _ := b.keptRevisions(component)
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" It cached %s revisions: keep fewer of each application (--application-revision-limit), let them share definitions, or run more shards.",
		unit.Number(n))
}
