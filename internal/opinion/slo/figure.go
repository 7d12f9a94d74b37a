package slo

import (
	"maps"
	"math"
	"slices"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/sli"
	"github.com/windtunnel/windtunnel/internal/stats"
)

// figure is what was measured of an indicator for one value of the labels that
// it is split by.
type figure struct {
	f        *run.Facts
	x        sli.Indicator
	labels   map[string]string
	series   []*series.Series
	warnings []string

	histogram stats.Histogram
	sum       float64 // of a histogram's or summary's values, of a counter's rises, of a share's part
	count     float64 // of a summary's values, of a share's whole
}

// labelValues returns the values of its labels, in the order of their names.
func (g *figure) labelValues() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(g.labels)) {
		out = append(out, g.labels[name])
	}
	return out
}

// unitFactor is what values are multiplied with.
func (g *figure) unitFactor() float64 {
	if g.x.Scale == 0 {
		return 1
	}
	return g.x.Scale
}

// readIncrease reads what the run added; false when that is nothing.
func (g *figure) readIncrease() bool {
	switch g.x.Kind {
	case sli.Histogram:
		return g.sumBuckets()
	case sli.Summary:
		g.count = g.sumIncreases(g.series)
		for _, s := range g.series {
			g.sum += g.sumIncreases(g.f.Series.Select(s.Target, g.x.Family+"_sum", labelMap(s.Labels)))
		}
		g.sum *= g.unitFactor()
		return g.count > 0
	case sli.Share:
		takes := g.x.Taker()
		g.count = g.sumIncreases(g.series)
		g.sum = g.sumIncreases(slices.DeleteFunc(slices.Clone(g.series), func(s *series.Series) bool { return !takes(s.Label) }))
		return g.count > 0
	case sli.Counter:
		g.sum = g.sumIncreases(g.series) * g.unitFactor()
		return g.countIntervals() > 0
	}
	return len(g.levelsAt(g.observationTimes())) > 0
}

// sumIncreases is by how much counters rose within the run, all together.
func (g *figure) sumIncreases(all []*series.Series) (sum float64) {
	for _, s := range all {
		rise, _ := s.Increase(g.f.Begin, g.f.End)
		sum += rise
	}
	return sum
}

// sumBuckets adds up the histograms that the figure's series are part of.
func (g *figure) sumBuckets() bool {
	mine := map[string]bool{}
	for _, s := range g.series {
		mine[histogramIdentity(s)] = true
	}
	groups, _ := g.f.Series.Histograms(series.HistogramQuery{Family: g.x.Family, From: g.f.Begin, To: g.f.End,
		Keep: func(s *series.Series) bool { return mine[histogramIdentity(s)] }})
	if len(groups) == 0 {
		return false
	}
	r := Result{}
	g.histogram = histogramOf(&r, groups[0])
	g.warnings = r.Warnings
	for i := range g.histogram {
		g.histogram[i].UpTo *= g.unitFactor()
	}
	g.sum = groups[0].Sum * g.unitFactor()
	return true
}

// histogramIdentity is the same for all series of one histogram.
func histogramIdentity(s *series.Series) string {
	b := append([]byte(s.Target), 0)
	for _, l := range s.Labels {
		if l.Name != "le" {
			b = append(append(append(append(b, l.Name...), 0), l.Value...), 0)
		}
	}
	return string(b)
}

// isBucketed reports whether a statistic is known only to within a bucket.
func (g *figure) isBucketed(statistic string) bool {
	_, isQuantile := stats.Parse(statistic)
	return g.x.Kind == sli.Histogram && (isQuantile || statistic == "max")
}

// estimateStatistic returns a statistic; false where the indicator has no such one.
func (g *figure) estimateStatistic(statistic string) (stats.Estimate, bool) {
	seconds := g.f.End.Sub(g.f.Begin).Seconds()
	switch g.x.Kind {
	case sli.Histogram:
		return ofHistogram(g.histogram, g.sum, seconds, statistic)
	case sli.Summary:
		return ofCounted(g.count, g.sum, seconds, statistic)
	case sli.Share:
		return exactEstimate(g.sum/g.count, g.count), statistic == "mean"
	case sli.Counter:
		switch statistic {
		case "sum":
			return exactEstimate(g.sum, float64(g.countIntervals())), true
		case "rate":
			return exactEstimate(g.sum/seconds, float64(g.countIntervals())), seconds > 0
		}
		return ofLevels(g.counterRates(), statistic)
	}
	if statistic == "max" {
		e, _ := ofLevels(g.levelsAt(g.allTimes()), statistic) // between two observations, too
		e.Samples = len(g.observationTimes())
		return e, true
	}
	return ofLevels(g.levelsAt(g.observationTimes()), statistic)
}

// ofHistogram is a statistic of a histogram's values.
func ofHistogram(h stats.Histogram, sum, seconds float64, statistic string) (stats.Estimate, bool) {
	if q, ok := stats.Parse(statistic); ok {
		return h.Quantile(q), true
	}
	if statistic == "max" {
		return h.Quantile(1), true
	}
	return ofCounted(h.Count(), sum, seconds, statistic)
}

// ofCounted is a statistic of values of which their number and sum are known.
func ofCounted(count, sum, seconds float64, statistic string) (stats.Estimate, bool) {
	switch {
	case statistic == "mean" && count > 0:
		return exactEstimate(sum/count, count), true
	case statistic == "sum":
		return exactEstimate(sum, count), true
	case statistic == "rate" && seconds > 0:
		return exactEstimate(count/seconds, count), true
	}
	return stats.Estimate{}, false
}

// exactEstimate is a value that is known, with nothing to say of its spread.
func exactEstimate(v, samples float64) stats.Estimate {
	return stats.Estimate{Value: v, Low: v, High: v, Samples: int(math.Round(samples)),
		Interval: [2]float64{math.Inf(-1), math.Inf(1)}}
}

// ofLevels is a statistic of values at scrapes; neighbouring ones depend on each
// other, so that there is no interval.
func ofLevels(values []float64, statistic string) (stats.Estimate, bool) {
	_, isQuantile := stats.Parse(statistic)
	if !isQuantile && statistic != "max" && statistic != "mean" {
		return stats.Estimate{}, false
	}
	slices.Sort(values)
	return ofRates(values, statistic), true
}
