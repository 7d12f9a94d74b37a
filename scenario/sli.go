package scenario

import (
	"regexp"
	"slices"
)

// SLI is a service level indicator: something measured that an objective can
// bound.
type SLI struct {
	Name       string
	Unit       string              // of its values, and of an objective's max and min
	Text       string              // one sentence
	Labels     map[string][]string // what narrows it, and the values allowed; nil: any
	Statistics []string            // the first is the default
}

// SLIs returns the indicators of the language.
func SLIs() []SLI {
	latency := []string{"p99", "p50", "p90", "p99.9", "max", "mean"} // and every other pNN
	scopes := []string{"resource", "namespace", "cluster"}
	verbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update"}
	return []SLI{
		{"pod-startup", "seconds", "from one phase of a pod to a later one, by the receipt times of windtunnel's own watch",
			map[string][]string{"group": nil, "phase": StartupPhases()}, latency},
		{"call-latency", "seconds", "from the moment when a call of the load was due to its answer",
			map[string][]string{"step": nil, "verb": verbs, "resource": nil, "subresource": nil, "scope": scopes}, latency},
		{"server-latency", "seconds", "kube-apiserver's own request duration, from its histograms",
			map[string][]string{"verb": verbs, "resource": nil, "subresource": nil, "scope": scopes}, latency},
		{"pods-running-rate", "1/s", "pods that came to run per second, from the first one created to the last one running",
			map[string][]string{"group": nil}, []string{"mean"}},
		{"pods-bound-rate", "1/s", "pods bound per second in each stretch of `window` (a time, default 5s), from the first one created to the last one bound",
			map[string][]string{"group": nil, "window": nil}, []string{"max", "mean", "p50", "p90", "p99"}},
	}
}

// Quantile tells whether a statistic is a quantile: p50, p99, p99.9.
func Quantile(statistic string) bool { return quantile.MatchString(statistic) }

var quantile = regexp.MustCompile(`^p([1-9][0-9]?|[0-9][0-9]?\.[0-9]{1,4}|100)$`)

// has tells whether the indicator has a statistic.
func (s SLI) has(statistic string) bool {
	return slices.Contains(s.Statistics, statistic) || Quantile(statistic) && Quantile(s.Statistics[0])
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

// Components returns the names of a plane's components.
func Components() []string {
	return []string{"etcd", "kube-apiserver", "kube-scheduler", "kube-controller-manager"}
}
