package diagnose

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/unit"
)

// How a client is known that waits for its own rate limiter and exports no metric of
// it, as those of controller-runtime: while items wait for its busy workers, its
// requests keep to one rate, and neither the API server nor computing takes the
// workers' time.
const (
	steadyWithin = 1.2 // the most requests in a slice are so many times the fewest, at most
	minSteady    = 2   // slices
	explained    = 0.5 // share of the workers' time from which on something else takes it
)

// findClientCeiling finds clients whose requests keep to a ceiling.
func findClientCeiling(f *Facts, d delays) (out []candidate) {
	for _, name := range f.componentNames(sent) {
		rate, share := steadyRate(f, name)
		if share.mean() < minScore {
			continue
		}
		out = append(out, newCandidate(Finding{
			Component: name,
			Sentence: fmt.Sprintf("%s sent a steady %s requests/s while items waited for its busy workers, and the API server answered in %s on average: a client-side rate limiter that exports no metric, or something outside the cluster, holds its workers back.",
				nameComponent(name, true), unit.Number(roundFigure(rate)), unit.Text(f.wholeValue(requestMean), "seconds")),
			Evidence: []Evidence{
				f.newEvidence(sent, newFigure("1/s", new(roundFigure(rate)), "requests that it sent; the bound is the ceiling"), instance, name),
				f.newEvidence(working, newFigure("workers", nil, "workers that are busy at a time"), instance, name),
				f.newEvidence(requestMean, newFigure("seconds", nil, "mean time of a request in the API server")),
			},
			Try: fmt.Sprintf("Compare the rate with QPS of the rest.Config of %s: unset, client-go allows 5 requests/s with a burst of 10; QPS -1 sets no limit. "+
				"If its limit is higher, find out what else its workers wait for.", name),
		}, share))
	}
	return out
}

// steadyRate is the rate that a client's requests keep to, and the share of each slice in
// which items wait for it.
func steadyRate(f *Facts, component string) (rate float64, share track) {
	none := make(track, f.Window.Slices)
	_, exported := f.findSeries(throttled, instance, component)
	if _, known := f.Answers[requestMean]; exported || !known {
		return 0, none
	}
	stands := waitingForAnyWorkers(f, component)
	requests, work, cores := f.sumSeries(sent, instance, component), f.sumSeries(working, instance, component), f.sumSeries(cpu, instance, component)
	mean := f.wholeValue(requestMean)
	var rates []float64
	for i := range stands {
		if stands[i] > 0 {
			rates = append(rates, requests.at(i))
		}
	}
	if len(rates) > minSteady { // the first one has the burst in it, the last one may end early
		rates = rates[1:]
	}
	if len(rates) > minSteady {
		rates = rates[:len(rates)-1]
	}
	if len(rates) < minSteady || slices.Min(rates) <= 0 || slices.Max(rates) > steadyWithin*slices.Min(rates) {
		return 0, none
	}
	rate = slices.Max(rates)
	return rate, f.perSlice(func(i int) float64 {
		if shareOf(requests.at(i)*mean+cores.at(i), work.at(i)) >= explained {
			return 0
		}
		return stands[i] * leftAfter(heldBack(f, component).at(i), waitingForClusters(f, component).at(i), scanShare(f, component).at(i))
	})
}
