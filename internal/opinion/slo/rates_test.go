package slo_test

import (
	"math"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// What was asked for stands beside what was achieved: of calls, of the pods that
// they led to, and of a lifecycle's objects.
func TestRates(t *testing.T) {
	for name, c := range map[string]struct {
		asked   record.Detail
		perCall int     // pods
		startup float64 // seconds from a call to its pods' running
		gap     float64 // seconds between pods that come to run one after another; 0: all of a call at once
		want    []run.Rate
	}{
		"keeps up":      {record.Detail{Count: 40, Rate: 4}, 10, 2, 0, []run.Rate{{Unit: "pods/s", Asked: 40, Achieved: 40}, {Unit: "calls/s", Asked: 4, Achieved: 4}}},
		"slow to start": {record.Detail{Count: 40, Rate: 4}, 10, 30, 0, []run.Rate{{Unit: "pods/s", Asked: 40, Achieved: 40}, {Unit: "calls/s", Asked: 4, Achieved: 4}}},
		"falls behind":  {record.Detail{Count: 40, Rate: 4}, 10, 2, 0.05, []run.Rate{{Unit: "pods/s", Asked: 40, Achieved: 20}, {Unit: "calls/s", Asked: 4, Achieved: 4}}},
		"all at once":   {record.Detail{Count: 40, Rate: math.Inf(1)}, 10, 2, 0.05, []run.Rate{{Unit: "pods/s", Achieved: 20}, {Unit: "calls/s", Achieved: 4}}},
		"a closed loop": {record.Detail{Count: 40, Parallel: 8}, 1, 2, 0, []run.Rate{{Unit: "pods/s", Parallel: 8, Achieved: 4}, {Unit: "calls/s", Parallel: 8, Achieved: 4}}},
		"no pods":       {record.Detail{Count: 40, Rate: 4}, 0, 0, 0, []run.Rate{{Unit: "calls/s", Asked: 4, Achieved: 4}}},
	} {
		f := newFlight(t)
		f.event(19, record.EventStepBegan, "fill", "")
		f.w.Event(record.Event{At: at(19), Type: record.EventLoadAsked, Name: "fill", Detail: c.asked})
		for i := range c.asked.Count {
			due := 20 + float64(i)/4
			f.call(loadOp(), due, 0, 0.01, record.OK)
			for n := range c.perCall {
				runs := due + c.startup
				if c.gap > 0 {
					runs = 20 + c.startup + c.gap*float64(i*c.perCall+n)
				}
				f.pod("fill", "created", due+0.02, "running", runs)
			}
		}
		f.end(record.Done)
		got := f.judge().Rates
		if len(got) != len(c.want) {
			t.Fatalf("%s: %+v", name, got)
		}
		for i, want := range c.want {
			if g := got[i]; g.Unit != want.Unit || g.Step != "fill" || math.Abs(g.Asked-want.Asked) > 1e-6 || math.Abs(g.Achieved-want.Achieved) > 0.01 || g.Parallel != want.Parallel {
				t.Errorf("%s: %+v, want %+v", name, g, want)
			}
		}
	}
}
