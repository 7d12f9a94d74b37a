package slo_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// Whatever was recorded, in whatever order, can be judged and written as JSON,
// and nothing that was not measured passes.
func FuzzAnyRecordsCanBeJudged(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x10\x11\x12\x13\x14\x15\x16"))
	f.Add([]byte{7, 0, 1, 2, 30, 1, 4, 50, 2, 9, 60, 200, 3, 7, 7, 5, 1, 3, 6, 2, 2, 255, 255, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		fl := newFlight(t)
		fl.objective(official())
		for _, o := range []scenario.Objective{
			{SLI: "pod-startup", Statistic: "p99", Max: new(5.0)}, {SLI: "call-latency", Statistic: "mean", Max: new(5.0)},
			{SLI: "server-latency", Statistic: "mean", Max: new(5.0)}, {SLI: "pods-running-rate", Statistic: "mean", Min: new(5.0)},
		} {
			fl.objective(o)
		}
		fl.w.Object(record.Object{Resource: "pods", Group: "g"})
		phases := []string{"created", "bound", "running", "ready", "deleting", "deleted", "unknown"}
		kinds := []record.EventType{record.EventRunBegan, record.EventRunEnded, record.EventDied, record.EventScraped, record.EventScrapeFailed, record.EventStepEnded, record.EventFleetReady}
		values := []float64{0, 1, 100, math.NaN(), math.Inf(1), -5, 1e300}
		for i := 0; i+2 < len(raw); i += 3 {
			a, b, when := int(raw[i+1]), raw[i+2], float64(int8(raw[i+2]))
			switch raw[i] % 5 {
			case 0:
				fl.call(loadOp(), when, float64(a)/100, float64(a)/10, record.Outcome(b%3))
			case 1:
				fl.w.Phase(record.Phase{Object: 0, Phase: phases[a%len(phases)], At: at(when)})
			case 2:
				fl.pod([]string{"", "g", "h"}[a%3], phases[int(b)%len(phases)], when)
			case 3:
				fl.sample(when, "kube-apiserver", "apiserver_request_sli_duration_seconds_"+[]string{"bucket", "sum"}[a%2], values[a%len(values)],
					record.Label{Name: "le", Value: []string{"1", "+Inf", "x"}[int(b)%3]}, record.Label{Name: "resource", Value: "pods"},
					record.Label{Name: "scope", Value: "resource"}, record.Label{Name: "verb", Value: "POST"})
			case 4:
				fl.event(when, kinds[a%len(kinds)], "kube-apiserver", "text")
			}
		}
		repotest.NoError(t, fl.w.Close())
		j := judged(t, collected(t, fl.path, &fl.sc, fl.m))
		if _, err := json.Marshal(j); err != nil {
			t.Fatal(err)
		}
		for _, r := range j.Objectives {
			if (r.Value == nil || r.Samples == 0) && r.Verdict != slo.Unknown {
				t.Fatalf("nothing was measured, but %+v", r)
			}
		}
	})
}
