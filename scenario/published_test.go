package scenario_test

import (
	"bytes"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// A figure holds for the parameters that its condition names, and a change between the
// two sides that it names, in either direction.
func TestPublishedHoldUnderConditions(t *testing.T) {
	const file = `scenario: x
parameters: {apps: 3000, profile: v18, part: 0.5}
steps: [{pause: 1s}]
published:
- {measure: m, value: 1, source: s}
- {measure: m, value: 2, source: s, when: apps == 3000 && profile == "v18"}
- {measure: m, value: 3, source: s, when: 'profile in ["v175", "v17"] || part > 0.75'}
- {measure: m, change: -50%, source: s, when: apps >= 1000, from: profile == "v175", to: profile == "v18"}
`
	parse := func(set map[string]string) *scenario.Scenario {
		s := repotest.Must(scenario.Parse("f", []byte(file), set))(t)
		var written bytes.Buffer
		repotest.NoError(t, scenario.Write(&written, s))
		if again, err := scenario.Parse("f", written.Bytes(), nil); err != nil || !same(s, again) {
			t.Errorf("%v is not the same when written: %v\n%s", set, err, written.String())
		}
		return s
	}
	for _, tt := range []struct {
		set  map[string]string
		want [3]scenario.Holds
	}{
		{nil, [3]scenario.Holds{true, true, false}},
		{map[string]string{"profile": "v175"}, [3]scenario.Holds{true, false, true}},
		{map[string]string{"apps": "100"}, [3]scenario.Holds{true, false, false}},
		{map[string]string{"apps": "100", "part": "1"}, [3]scenario.Holds{true, false, true}},
	} {
		s := parse(tt.set)
		if got := [3]scenario.Holds{s.Published[0].When, s.Published[1].When, s.Published[2].When}; got != tt.want {
			t.Errorf("%v: when holds %v, want %v", tt.set, got, tt.want)
		}
	}
	for _, tt := range []struct {
		a, b map[string]string
		want float64
		ok   bool
	}{
		{map[string]string{"profile": "v175"}, nil, -0.5, true},
		{nil, map[string]string{"profile": "v175"}, 1, true},
		{nil, nil, 0, false},
		{map[string]string{"profile": "v175", "apps": "10"}, nil, 0, false},
		{map[string]string{"profile": "v175"}, map[string]string{"profile": "improved"}, 0, false},
	} {
		got, ok := parse(tt.a).Published[3].ChangeBetween(parse(tt.b).Published[3])
		if got != tt.want || ok != tt.ok {
			t.Errorf("from %v to %v: %v %v, want %v %v", tt.a, tt.b, got, ok, tt.want, tt.ok)
		}
	}
}
