package slo_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A verdict.json of before lifecycles had their name is read in today's words;
// a scenario's own measures keep the names that it gave them.
func TestFormerWordsOfVerdicts(t *testing.T) {
	text := `{"scenario": "x", "verdict": "pass", "measures": {
		"life_vmi_created_to_running_p99_seconds": {"value": 2, "unit": "seconds"}, "lives_vmi_running": {"value": 3, "unit": "objects"},
		"life_of_mine": {"value": 4, "unit": "s", "own": true}, "lifetime": {"value": 5, "unit": "s"}},
		"lives": [{"life": "vmi", "from": "created", "to": "running", "samples": 3, "vague": 1, "unit": "seconds", "values": []}],
		"self": {"late_calls": 7}}`
	var got slo.Judgement
	repotest.NoError(t, json.Unmarshal([]byte(text), &got))
	want := slo.Judgement{Scenario: "x", Verdict: slo.Pass, Self: slo.Self{LateCalls: 7},
		Measures: slo.Measures{"lifecycle_vmi_created_to_running_p99_seconds": {Value: 2, Unit: "seconds"}, "lifecycles_vmi_running": {Value: 3, Unit: "objects"},
			"life_of_mine": {Value: 4, Unit: "s", Own: true}, "lifetime": {Value: 5, Unit: "s"}},
		Lifecycles: []slo.LifecycleSummary{{Lifecycle: "vmi", From: "created", To: "running", Samples: 3, Censored: 1, Unit: "seconds", Values: []slo.LifecycleStatistic{}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	raw := repotest.Must(json.Marshal(got))(t)
	var again slo.Judgement
	if err := json.Unmarshal(raw, &again); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("written and read again: %+v, %v", again, err)
	}
	for _, prefix := range []string{"life_vmi", "lifecycle_vmi", "life"} {
		if !slo.HasKey("lifecycle_vmi_created_to_running_p99_seconds", []string{"other", prefix}) {
			t.Errorf("%s begins no key of a lifecycle", prefix)
		}
	}
	if slo.HasKey("cpu_seconds_etcd", []string{"lives_", "life_"}) {
		t.Error("a key without a lifecycle has one")
	}
}
