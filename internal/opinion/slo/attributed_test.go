package slo_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// audited is a run in which the API server counted requests of its own, and the audit log 100
// of a manager's.
func audited(t *testing.T, served float64, read bool) slo.Judgement {
	f := newFlight(t)
	f.m.Started = time.Unix(1e9, 0)
	most, none := 3.0, 0.0
	f.objective(scenario.Objective{Name: "updates", SLI: "requests-by-client", Labels: map[string]string{"client": "manager", "verb": "update"}, Statistic: "sum", Max: &most})
	f.objective(scenario.Objective{Name: "lists", SLI: "requests-by-client", Labels: map[string]string{"client": "manager", "verb": "list"}, Statistic: "sum", Max: &none})
	for name, labels := range map[string]map[string]string{
		"other client":   {"client": "manger"},
		"other resource": {"client": "manager", "resource": "pod"},
		"other verb":     {"client": "manager", "resource": "pods", "verb": "deletecollection"},
	} {
		f.objective(scenario.Objective{Name: name, SLI: "requests-by-client", Labels: labels, Statistic: "sum", Max: &none})
	}
	f.objective(scenario.Objective{Name: "per object", Query: `sum(increase(windtunnel_client_requests_total{client="manager"}[%v])) / 50`, Unit: "requests", Max: &most})
	f.sc.Measures = append(f.sc.Measures, scenario.Measure{Name: "each", Query: `sum(windtunnel_client_requests_total)`})
	for _, t := range []float64{9.5, 52.5, 95.5} {
		n := (t - 9.5) / 86
		if read {
			f.sample(t, "windtunnel", "windtunnel_audit_bytes_total", 700*n)
			f.sample(t, "windtunnel", "windtunnel_client_requests_total", 100*n, record.Label{Name: "client", Value: "manager"},
				record.Label{Name: "code", Value: "200"}, record.Label{Name: "resource", Value: "pods"}, record.Label{Name: "verb", Value: "update"})
		}
		f.sample(t, "kube-apiserver", "apiserver_request_total", served*n, record.Label{Name: "resource", Value: "pods"}, record.Label{Name: "verb", Value: "PUT"})
		f.scrape(t)
	}
	f.end(record.Done)
	return f.judge()
}

func TestRequestsByClient(t *testing.T) {
	all := audited(t, 100, true)
	for name, want := range map[string]slo.Verdict{"updates": slo.Fail, "lists": slo.Pass, "per object": slo.Pass} {
		if o := find(t, all, name, nil); o.Verdict != want || o.Value == nil {
			t.Errorf("%s: %s, %+v, want %s", name, o.Verdict, o, want)
		}
	}
	for name, want := range map[string]string{
		"other client":   "the audit log has no request of client manger, but of manager",
		"other resource": "the audit log has no request of resource pod, but of pods",
		"other verb":     "",
	} {
		o := find(t, all, name, nil)
		if said := strings.Join(o.Warnings, " "); !strings.HasPrefix(said, want) || (o.Verdict == slo.Pass) != (want == "") {
			t.Errorf("%s: %s, %s", name, o.Verdict, said)
		}
	}
	if m := all.Measures; m["requests_attributed"].Value != 1 || m["requests_by_client_manager"].Value != 100 || m["each"].Value != 100 {
		t.Errorf("%+v", m)
	}
}

// Where the audit log has not all, or was not read, what a client asked for is unknown and
// never a pass.
func TestRequestsThatAreNotAttributed(t *testing.T) {
	for name, c := range map[string]struct {
		j    slo.Judgement
		why  string
		keys int
	}{
		"some are missing": {audited(t, 103, true), "97.1 % of the requests", 1},
		"no counters":      {audited(t, 0, true), "own count of requests was not read", 0},
		"no audit log":     {audited(t, 100, false), "no audit log was read", 0},
	} {
		for _, objective := range []string{"updates", "lists", "per object"} {
			if o := find(t, c.j, objective, nil); o.Verdict != slo.Unknown || !strings.Contains(strings.Join(o.Warnings, " "), c.why) {
				t.Errorf("%s: %s is %s: %v", name, objective, o.Verdict, o.Warnings)
			}
		}
		keys := 0
		for key := range c.j.Measures {
			if strings.HasSuffix(key, "_manager") || key == "each" || key == "requests_attributed" {
				keys++
			}
		}
		if keys != c.keys {
			t.Errorf("%s: %d measures of clients, want %d: %+v", name, keys, c.keys, c.j.Measures)
		}
	}
}
