package slo

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/sli"
)

// errNotAttributed says that what clients asked for is not known.
var errNotAttributed = errors.New("the requests of clients are not known")

// whyNotAttributed says why the requests of clients are not known; nil where they are.
func whyNotAttributed(f *run.Facts) error {
	a := f.Attribute()
	if a == nil {
		return fmt.Errorf("%w: no audit log was read (plane.audit in the scenario, or --audit-log)", errNotAttributed)
	}
	share, known := a.CoveredShare()
	switch {
	case !known:
		return fmt.Errorf("%w: kube-apiserver's own count of requests was not read, so nobody can tell whether the audit log has all of them", errNotAttributed)
	case !a.Enough():
		return fmt.Errorf("%w: the audit log has %.1f %% of the requests that kube-apiserver counted (at least %.0f %% are needed)", errNotAttributed, 100*share, 100*run.EnoughAttributed)
	}
	return nil
}

// isOfClients tells indicators and queries that are read from audit logs.
func isOfClients(family string) bool { return strings.Contains(family, run.ClientFamilies) }

// judgeOfClients judges an indicator of clients where that follows from the audit log alone: it
// does not tell, or it tells that there was no such request. A client or resource that is in none
// of its requests is more likely a mistyped name than 0 requests.
func (i indicators) judgeOfClients(r *Result, x sli.Indicator, labels map[string]string, any bool) (done bool) {
	if !isOfClients(x.Family) {
		return false
	}
	if err := whyNotAttributed(i.f); err != nil {
		setUnmeasured(r, err.Error())
		return true
	}
	if any {
		return false
	}
	named := maps.Clone(labels)
	maps.DeleteFunc(named, func(label, _ string) bool {
		return !slices.Contains([]string{"client", "version", "user", "resource"}, label)
	})
	if instead := i.whichInstead(x, named); instead != "" {
		setUnmeasured(r, "the audit log has no request"+instead)
	} else {
		holdAgainstThreshold(r, exactEstimate(0, 1), false)
	}
	return true
}

// attributedMeasures say what each client asked for, and how much of the server's own count that is.
func attributedMeasures(m Measures, f *run.Facts) {
	a := f.Attribute()
	if a == nil {
		return
	}
	share, known := a.CoveredShare()
	if !known {
		return
	}
	m.set("requests_attributed", share, "ratio")
	if !a.Enough() {
		return
	}
	for _, c := range a.ByName() {
		m.set(joinKey("requests_by_client", c.Name), c.Requests, "requests")
		m.set(joinKey("modeled_cpu_seconds", c.Name), c.CPU, "seconds")
	}
}
