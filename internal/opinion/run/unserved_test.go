package run_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// A trace has calls as CODE@DUE+LATENCY in milliseconds, in any order; code 0
// is a call without an answer. What is found is BEGIN..END.
func TestUnserved(t *testing.T) {
	for trace, want := range map[string]string{
		"":                            "",
		"200@0+5 200@100+5":           "",
		"200@0+5 503@100+5 200@200+5": "100..205",
		"200@0+5 0@100+1 0@200+1 200@300+5 200@400+5":               "100..305",
		"404@0+5 409@100+5 403@200+5":                               "",
		"200@0+5 429@100+5 200@200+5":                               "100..205",
		"200@0+5 200@100+1000":                                      "",
		"200@0+5 200@100+1001 200@1200+5":                           "100..1101",
		"200@0+5 200@100+4500 200@200+4400 200@3700+900 200@5000+5": "100..4600", // a server that was stopped
		"200@0+5 0@100+1 200@200+5 0@900+1 200@1000+5":              "100..205 900..1005",
		"200@0+5 0@100+1 0@200+30":                                  "100..101 200..230", // nothing served after it
		"500@0+5":                                                   "0..5",
		"200@2100+5 200@1200+5 0@0+7000 500@100+6900 200@9000+5":    "0..1205", // it times out long after others were served
		"503@0+5 0@10+1 404@20+5":                                   "0..25",
		"200@101+5 0@102+5 200@108+5 200@200+5":                     "102..113",
		"200@101+5 0@109+5 200@108+5 200@200+5":                     "109..205",
	} {
		var o run.Outages
		for _, word := range strings.Fields(trace) {
			var code uint16
			var due, latency int64
			if _, err := fmt.Sscanf(word, "%d@%d+%d", &code, &due, &latency); err != nil {
				t.Fatal(err)
			}
			at := func(ms int64) clock.Time { return clock.Time(ms * int64(time.Millisecond)) }
			outcome := record.OK
			switch {
			case code == 0:
				outcome = record.Unknown
			case code >= 400:
				outcome = record.Failed
			}
			o.Add(record.Call{Due: at(due), Sent: at(due), Done: at(due + latency), Code: code, Outcome: outcome})
		}
		var got []string
		for _, one := range run.MergeOutages(o.All()) {
			got = append(got, fmt.Sprintf("%d..%d", int64(one.Begin)/1e6, int64(one.End)/1e6))
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", trace, text, want)
		}
	}
	merged := run.MergeOutages([]run.Outage{{Begin: 50, End: 60}, {Begin: 0, End: 10}, {Begin: 5, End: 20}, {Begin: 20, End: 30}, {Begin: 52, End: 55}})
	if got := fmt.Sprint(merged); got != "[{0 30} {50 60}]" {
		t.Errorf("merged %s", got)
	}
}
