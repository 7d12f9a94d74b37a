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
func longestStage(f *Facts, component string) (name string, share float64) {
	s, ok := f.findSeries(stage, instance, component)
	if !ok {
		return "", 0
	}
	return s.Labels["stage"], s.Whole
}

// longestStageShare is the share of a component's work that goes into its longest stage, where
// that is more than half of it.
func longestStageShare(f *Facts, component string) track {
	name, share := longestStage(f, component)
	long := f.sumSeries(stage, instance, component, "stage", name)
	return f.perSlice(func(i int) float64 {
		return clampShare(long.at(i)) * oneIf(share > stageBound && long.at(i) > stageBound)
	})
}

// findStage finds workers that are busy with one stage of what they do, while items wait
// for them: it explains that part of the wait, and the number of workers the rest.
func findStage(f *Facts, d delays) (out []candidate) {
	for _, s := range f.Answers[queued].Series {
		component, queue := s.Labels[instance], s.Labels["name"]
		name, part := longestStage(f, component)
		if part <= stageBound {
			continue
		}
		all, long := waitingInQueue(f, d, component, queue), longestStageShare(f, component)
		share := f.perSlice(func(i int) float64 { return all[i] * long[i] })
		if share.mean() < minScore {
			continue
		}
		labels := []string{instance, component, "name", queue}
		n, _ := workersOf(f, component, queue)
		out = append(out, newCandidate(Finding{
			Component: component,
			Sentence: fmt.Sprintf("Of what the workers of %s did, %s went into stage %s, while %.3g items waited for them at a time.",
				component, formatPercent(part), name, max(f.wholeValue(queued, labels...), f.wholeValue(depth, labels...))),
			Evidence: []Evidence{
				f.newEvidence(stage, newFigure("ratio", new(stageBound), "that stage's share of the time of all passes"), instance, component, "stage", name),
				f.newEvidence(working, newFigure("workers", boundIfKnown(n), "workers that are busy at a time, of so many"), labels...),
				f.newEvidence(queued, newFigure("items", new(0.0), "items that wait at a time, by those that have left the queue"), labels...),
			},
			Try: adviseStage(name) + " Or give queue " + queue + " more workers" + beyondNow(n) + ".",
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

// adviseStage says what makes a stage of a pass over an application shorter.
func adviseStage(stage string) string {
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

// cachedRevisions is how many ApplicationRevisions a component caches, and the question
// that says so: 0 of one that neither makes any nor counts stages of applications. The
// API server counts once a minute, and what was killed before that has its own count.
func cachedRevisions(f *Facts, component string) (n float64, question string) {
	name, _ := longestStage(f, component)
	made, makes := f.findSeries(madeRevisions, instance, component)
	if name == "" && !makes {
		return 0, ""
	}
	if n := f.wholeValue(revisions); n > 0 {
		return n, revisions
	}
	return made.Whole, madeRevisions
}

// revisionEvidence is the evidence that revisions fill a component's memory; none of one
// that caches none.
func revisionEvidence(f *Facts, component string) []Evidence {
	switch n, question := cachedRevisions(f, component); {
	case n <= 0:
		return nil
	case question == revisions:
		return []Evidence{f.newEvidence(revisions, newFigure("objects", nil, "revisions at most, each with a copy of the definitions that it uses"))}
	}
	return []Evidence{f.newEvidence(madeRevisions, newFigure("objects", nil, "revisions that it made and did not delete again, each with a copy of the definitions that it uses"), instance, component)}
}

// adviseFewerRevisions is what to do about the memory of such a component.
func adviseFewerRevisions(f *Facts, component string) string {
	n, _ := cachedRevisions(f, component)
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf(" It cached %s revisions: keep fewer of each application (--application-revision-limit), let them share definitions, or run more shards.",
		unit.Number(n))
}
