package scenario_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/scenario"
)

// One parameter may stand for a pair.
func TestSplit(t *testing.T) {
	file := func(expression string) string {
		return "scenario: x\nparameters: {limiter: 5/10}\nplane:\n  components:\n    etcd:\n      flags: {a: '${" + expression + "}'}\nsteps: [{pause: 1s}]\n"
	}
	for expression, want := range map[string]string{
		`limiter.split("/")[0]`: "5", `limiter.split("/")[1]`: "10", `limiter.split("-")[0]`: "5/10", `"a,b,c".split(",")[2]`: "c",
	} {
		s, err := scenario.Parse("f", []byte(file(expression)), nil)
		if err != nil {
			t.Errorf("%s: %v", expression, err)
			continue
		}
		if got := s.Plane.Components["etcd"].Flags["a"]; got != want {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
	for expression, want := range map[string]string{
		`limiter.split("/")[2]`: "index out of bounds", `limiter.split("/")`: "a number, a text, true or false is wanted", `limiter.split(1)`: "cannot be applied",
	} {
		if _, err := scenario.Parse("f", []byte(file(expression)), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
	}
}
