package slo

import (
	"fmt"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// server is the API server as its own metrics show it.
type server struct{ f *run.Facts }

// manyServers is why an address's counters are not judged.
const manyServers = "several API servers answered scrapes at one address, and their counters cannot be told apart"

// latencyIncrease returns the increase of the server's histograms over the
// run, from the last scrape before its begin to the last before its end, by
// group, resource, scope, subresource and verb, over all versions.
func (s server) latencyIncrease(keep func(*series.Series) bool) ([]series.Buckets, bool) {
	return s.f.Series.Histograms(series.HistogramQuery{
		Target: apiServer, Family: sliFamily, Keep: keep,
		By:   []string{"group", "resource", "scope", "subresource", "verb"},
		From: s.f.Begin, To: s.f.End,
	})
}

// whyUnusable says why the server's histograms cannot be judged; empty when
// they can. Known says that there are any.
func (s server) whyUnusable(known bool) string {
	if served, cut := s.f.Cut[apiServer]; cut {
		return cutOff(apiServer, served)
	}
	switch {
	case !known && s.f.NotScraped[apiServer] > 0:
		return fmt.Sprintf("nothing was read of the API server's %s: it could not be scraped", sliFamily)
	case !known:
		return fmt.Sprintf("nothing was read of the API server's %s", sliFamily)
	case s.hasSeveralServers():
		return manyServers
	}
	return ""
}

// startTimes returns the start times of each API server in the order in which scrapes
// met them within the run.
func (s server) startTimes() (all [][]float64) {
	for _, x := range s.f.Series.Select(apiServer, startTime, nil) {
		var out []float64
		if v, ok := x.At(s.f.Begin); ok {
			out = append(out, v)
		}
		for i := range x.Len() {
			if at, v := x.Sample(i); at > s.f.Begin && at <= s.f.End {
				out = append(out, v)
			}
		}
		all = append(all, slices.Compact(out))
	}
	return all
}

// countRestarts returns how often API servers were started again.
func (s server) countRestarts() (n int) {
	for _, times := range s.startTimes() {
		n += max(0, len(times)-1)
	}
	return n
}

// hasSeveralServers reports whether scrapes met more than one API server behind one
// address: an earlier start time was met again after a later one. Their
// counters cannot be told apart then.
func (s server) hasSeveralServers() bool {
	return slices.ContainsFunc(s.startTimes(), func(times []float64) bool { return !slices.IsSorted(times) })
}
