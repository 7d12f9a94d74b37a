package scenario

import (
	"regexp"
	"slices"

	"github.com/windtunnel/windtunnel/internal/sli"
)

// SLI is a service level indicator: something measured that an objective can
// bound. Package sli has the table of them.
type SLI struct {
	Name       string
	Unit       string              // of its first statistic, and of an objective's max and min with it
	Text       string              // one sentence
	Labels     map[string][]string // what narrows it, and the values allowed; nil: any
	Statistics []string            // the first is the default
}

// SLIs returns the indicators of the language.
func SLIs() []SLI {
	var out []SLI
	for _, x := range sli.All() {
		out = append(out, SLI{x.Name, x.UnitOf(x.Statistics[0]), x.Text, x.Labels, x.Statistics})
	}
	return out
}

// Quantile tells whether a statistic is a quantile: p50, p99, p99.9.
func Quantile(statistic string) bool { return quantile.MatchString(statistic) }

var quantile = regexp.MustCompile(`^p([1-9][0-9]?|[0-9][0-9]?\.[0-9]{1,4}|100)$`)

// hasStatistic tells whether the indicator has a statistic.
func (s SLI) hasStatistic(statistic string) bool {
	return slices.Contains(s.Statistics, statistic) || Quantile(statistic) && Quantile(s.Statistics[0])
}

// ofRecords tells whether an indicator is made of windtunnel's own records, and not of
// a component's metrics.
func ofRecords(name string) bool {
	x, ok := sli.Find(name)
	return ok && x.Kind == sli.Records
}

func findSLI(name string) (SLI, bool) {
	list := SLIs()
	i := slices.IndexFunc(list, func(s SLI) bool { return s.Name == name })
	if i < 0 {
		return SLI{}, false
	}
	return list[i], true
}

// Phases returns the phases of a pod in their order.
func Phases() []string { return sli.Phases() }
