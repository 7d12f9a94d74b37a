package scenario_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

func TestAsksOf(t *testing.T) {
	s := scenario.Scenario{
		Objectives: []scenario.Objective{{SLI: "call-latency", Step: "a"}, {Query: "up", Step: "b"}, {Query: "up", Since: "c"}},
		Measures:   []scenario.Measure{{Since: "d", Until: "e"}, {Query: "up", Until: "f"}},
	}
	for step, want := range map[string]bool{"a": false, "b": true, "c": true, "d": false, "e": false, "f": true, "": false} {
		if got := s.AsksOf(step); got != want {
			t.Errorf("%q: %t", step, got)
		}
	}
}
