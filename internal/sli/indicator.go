// Package sli is the table of service level indicators: what can be
// measured of a plane under a name, in which unit, where the numbers come from
// and who defined it so.
//
// It measures nothing and judges nothing. Package scenario takes the names and
// labels from it, package slo computes the values, and docs/reference/slis.md is made of
// it.
package sli

import (
	"regexp"
	"slices"
	"strings"
)

// Kind says what an indicator's values are made of.
type Kind uint8

// The kinds of indicators.
const (
	Records   Kind = iota // calls and lives of the record stream: package slo knows each by its name
	Histogram             // a Prometheus histogram: the values that it counted in the run
	Summary               // NAME_sum and NAME_count: their mean only
	Counter               // by how much it rose
	Gauge                 // its values at each scrape
	Share                 // the increase of some series of a counter by that of all
)

// Indicator is one row of the table.
type Indicator struct {
	Name       string
	Unit       string              // of its values; of a counter's statistic rate see RateUnit
	Text       string              // one sentence: what it is
	Source     string              // whose definition this is, or which instrument it is read from
	Labels     map[string][]string // what narrows it, and the values allowed; nil: any
	Statistics []string            // the first is the default; one whose first is a quantile has all others
	Per        []string            // labels for each value of which there is a result of its own, if nothing else is asked

	Kind   Kind
	Family string  // of metrics, for all kinds but Records
	Where  []Match // what each series' labels are; a share's numerator only
	Calls  bool    // the family knows a resource by its labels group and resource, and a verb as HTTP does
	Scale  float64 // values times this are in Unit; 0: they are
	Rate   string  // unit of a counter's rate; empty: Unit/s
	Most   bool    // a gauge of several series: the largest of them; otherwise they are added up

	Shown []string // statistics that stand among the measures of every run that has data
}

// Component is the label that says which component was scraped.
const Component = "component"

// Cluster is the label that says which member a call, a lifecycle or a series is of;
// those of the plane have none.
const Cluster = "cluster"

// Statistics of durations and other distributions; every other pNN is one too.
func distributionStatistics() []string {
	return []string{"p99", "p50", "p90", "p99.9", "p99.99", "max", "mean", "rate", "sum"}
}

func rateStatistics() []string { return []string{"rate", "sum", "max", "p50", "p90", "p99"} }

func levelStatistics() []string { return []string{"max", "mean", "p50", "p90", "p99"} }

// Verbs are the API verbs of calls, Scopes what a call speaks of.
func Verbs() []string {
	return []string{"create", "delete", "deletecollection", "get", "list", "patch", "update"}
}

// Scopes are one object, a namespace and the whole cluster.
func Scopes() []string { return []string{"resource", "namespace", "cluster"} }

// callLabels narrow what is measured of API calls.
func callLabels(more ...string) map[string][]string {
	out := map[string][]string{"verb": Verbs(), "resource": nil, "subresource": nil, "scope": Scopes()}
	for _, name := range more {
		out[name] = nil
	}
	return out
}

// ownCallLabels narrow what is measured of windtunnel's own calls.
func ownCallLabels() map[string][]string {
	out := callLabels("source", "step", "cluster", "clients")
	out["connection"] = []string{"kept", "new"}
	return out
}

// auditLabels narrow what is measured of an audit log's requests, which has more verbs.
func auditLabels() map[string][]string {
	more := []string{"watch", "connect", "proxy", "post", "put", "head", "options"} // some are methods, of paths that are no resource's
	return oneOf(anyLabels("client", "version", "user", "resource", "subresource", "code"), "verb", append(Verbs(), more...)...)
}

// anyLabels allow any value of these names.
func anyLabels(names ...string) map[string][]string {
	out := map[string][]string{}
	for _, name := range names {
		out[name] = nil
	}
	return out
}

// oneOf adds a label whose values are known: a counter of another one would be 0 for ever.
func oneOf(labels map[string][]string, name string, values ...string) map[string][]string {
	labels[name] = values
	return labels
}

// admissionLabels narrow what is measured of admission.
func admissionLabels(types ...string) map[string][]string {
	return oneOf(oneOf(anyLabels("name"), "type", types...), "operation", "CREATE", "UPDATE", "DELETE", "CONNECT")
}

// Phases returns the phases of a pod in their order.
func Phases() []string { return []string{"created", "bound", "running", "ready"} }

// StartupPhases returns the values of pod-startup's label phase: "startup",
// the default, which is created..running, and each FROM..TO.
func StartupPhases() []string {
	out, phases := []string{"startup"}, Phases()
	for i, from := range phases {
		for _, to := range phases[i+1:] {
			out = append(out, from+".."+to)
		}
	}
	return out
}

// All returns the table, part by part.
func All() []Indicator {
	return slices.Concat(callIndicators(), podIndicators(), watchIndicators(), queueIndicators(), clientIndicators(), etcdIndicators(), processIndicators(), networkIndicators())
}

// Find returns the indicator of a name.
func Find(name string) (Indicator, bool) {
	all := All()
	i := slices.IndexFunc(all, func(x Indicator) bool { return x.Name == name })
	if i < 0 {
		return Indicator{}, false
	}
	return all[i], true
}

// Server is the component whose family it is; empty for a family that several
// components serve, and for what is not scraped.
func (x Indicator) Server() string {
	for prefix, component := range map[string]string{"apiserver_": "kube-apiserver", "etcd_": "etcd", "scheduler_": "kube-scheduler"} {
		if strings.HasPrefix(x.Family, prefix) {
			if x.Calls {
				return "kube-apiserver" // which counts its requests to etcd as well
			}
			return component
		}
	}
	return ""
}

// Scraped tells whether the family is read from its component's metrics and nowhere
// else, so that a complete scrape without a series says that there is none.
func (x Indicator) Scraped() bool {
	return x.Family != "" && !slices.ContainsFunc([]string{"windtunnel_", "cgroup_", "process_"}, func(prefix string) bool { return strings.HasPrefix(x.Family, prefix) })
}

// UnitOf returns the unit of a statistic of the indicator.
func (x Indicator) UnitOf(statistic string) string {
	switch {
	case statistic == "sum" || x.Kind != Counter && statistic != "rate":
		return x.Unit
	case x.Kind != Counter:
		return "1/s"
	case x.Rate != "":
		return x.Rate
	}
	return x.Unit + "/s"
}

// Match is a condition on a label of a metric.
type Match struct {
	Label, Pattern string // a regular expression for the whole value
	Not            bool   // the value does not match
}

// Taker returns a test for the series that Where is about, by their labels.
func (x Indicator) Taker() func(label func(name string) string) bool {
	var patterns []*regexp.Regexp
	for _, m := range x.Where {
		patterns = append(patterns, regexp.MustCompile("^(?:"+m.Pattern+")$")) // the table's own, and tested
	}
	return func(label func(string) string) bool {
		for i, m := range x.Where {
			if patterns[i].MatchString(label(m.Label)) == m.Not {
				return false
			}
		}
		return true
	}
}
