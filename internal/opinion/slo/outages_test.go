package slo_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// Two operations of one step are unserved at times that overlap: one outage for the step,
// one for each verb.
func TestCallOutages(t *testing.T) {
	probe := func(verb string) record.Op {
		return record.Op{Source: run.Load, Step: "probe", Verb: verb, Resource: "configmaps", Scope: "resource"}
	}
	step := map[string]string{"step": "probe"}
	for _, c := range []struct {
		sli, statistic string
		labels         map[string]string
		want           float64
		samples        int
	}{
		{"call-unavailability", "max", step, 2.75, 13}, // 21 to 23.75: both verbs
		{"call-unavailability", "sum", step, 4, 13},    // and 25 to 26.25
		{"call-outages", "count", step, 2, 13},
		{"call-unavailability", "max", map[string]string{"step": "probe", "verb": "create"}, 2.25, 6},
		{"call-outages", "count", map[string]string{"step": "probe", "verb": "create"}, 1, 6},
		{"call-unavailability", "sum", map[string]string{"step": "probe", "verb": "get"}, 3.5, 7},
		{"call-unavailability", "max", map[string]string{"connection": "new"}, 3.75, 3}, // 40.5 to 44.25: kept ones are served
		{"call-outages", "count", map[string]string{"connection": "new"}, 1, 3},
		{"call-unavailability", "max", map[string]string{"connection": "kept"}, 2.75, 13},
	} {
		f := newFlight(t)
		f.sc.FailedCalls = scenario.Ignore
		get, create := probe("get"), probe("create")
		for i, outcome := range []record.Outcome{record.OK, record.Unknown, record.Unknown, record.OK, record.OK, record.Unknown, record.OK} {
			at := 20 + float64(i)
			f.call(get, at, 0, 0.25, outcome)
			if i != 5 {
				f.call(create, at+0.5, 0, 0.25, outcome)
			}
		}
		anew := probe("get")
		anew.Step, anew.Connection = "new-connections", record.NewConnection
		for i, outcome := range []record.Outcome{record.OK, record.Failed, record.OK} {
			f.call(anew, 37+3.5*float64(i), 0, 0.25, outcome)
		}
		r := f.statistic(c.sli, c.statistic, 100, c.labels)
		if want := map[string]string{"count": "outages"}[c.statistic]; want != "" && r.Unit != want {
			t.Errorf("%s in %s, want %s", c.sli, r.Unit, want)
		}
		wants(t, c.sli+" "+c.statistic+" of "+c.labels["verb"], r, c.want, c.samples)
	}
}
