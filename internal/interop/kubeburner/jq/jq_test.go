package jq_test

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/kubeburner/jq"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestCondition: each program's condition is valid, and holds for an object
// exactly where jq gives the value.
func TestCondition(t *testing.T) {
	ready := `{"status":{"phase":"Bound","ready":true,"count":3,"names":["a","b"],"odd-name":"x","conditions":[{"type":"Other","status":"False"},{"type":"Ready","status":"True","n":2}]}}`
	for _, tt := range []struct {
		key, value string
		want       string // the condition, or the error
		holds      bool
	}{
		{".phase", "Bound", `self.status.phase == "Bound"`, true},
		{".phase", "Lost", `self.status.phase == "Lost"`, false},
		{".missing", "x", `self.status.missing == "x"`, false},
		{".phase | ascii_downcase", "bound", `self.status.phase.lowerAscii() == "bound"`, true},
		{".ready | tostring | ascii_downcase", "true", `(self.status.ready == true || self.status.ready == "true")`, true},
		{".ready", "true", `self.status.ready == "true"`, false}, // a boolean is no text
		{".count | tostring", "3", `(self.status.count == 3 || self.status.count == "3")`, true},
		{".phase | tostring", "Bound", `self.status.phase == "Bound"`, true},
		{".names[1]", "b", `self.status.names[1] == "b"`, true},
		{".names[]", "b", `self.status.names.exists(c, c == "b")`, true},
		{`."odd-name"`, "x", `self.status["odd-name"] == "x"`, true},
		{`.["odd-name"]`, "x", `self.status["odd-name"] == "x"`, true},
		{`(.conditions.[] | select(.type == "Ready")).status`, "True", `self.status.conditions.exists(c, c.type == "Ready" && c.status == "True")`, true},
		{`.conditions[] | select(.type == "Ready" and .n >= 2) | .status`, "True", `self.status.conditions.exists(c, (c.type == "Ready" && c.n >= 2) && c.status == "True")`, true},
		{`.conditions[] | select((.type == "Other") or .n > 2) | .status`, "True", `self.status.conditions.exists(c, ((c.type == "Other") || c.n > 2) && c.status == "True")`, false},
		{".conditions[].type", "Ready", `self.status.conditions.exists(c, c.type == "Ready")`, true},
		{".conditions[]?.type", "Ready", `self.status.conditions.exists(c, c.type == "Ready")`, true},
		{".a[].b[].c", "x", `self.status.a.exists(c, c.b.exists(c2, c2.c == "x"))`, false},
		{".a | length", "1", `the function length in the jq program ".a | length" has no form in CEL here`, false},
		{".a + .b", "1", `an operator in the jq program ".a + .b" has no form in CEL here`, false},
		{".a[1:2]", "1", `an index in the jq program ".a[1:2]" has no form in CEL here`, false},
		{`[.a]`, "1", `a part in the jq program "[.a]" has no form in CEL here`, false},
		{`.a[] | select(.b)`, "1", `a condition in the jq program ".a[] | select(.b)" has no form in CEL here`, false},
		{`.a[] | select(.b == .c)`, "1", `a comparison with what is no constant in the jq program ".a[] | select(.b == .c)" has no form in CEL here`, false},
		{`.a |`, "1", `".a |" is not a jq program: unexpected EOF`, false},
	} {
		got, err := jq.Condition(tt.key, "self.status", tt.value)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s = %s: got %s, want %s", tt.key, tt.value, got, tt.want)
			continue
		}
		if err != nil {
			continue
		}
		c, err := scenario.ParseCondition(got)
		if err != nil {
			t.Errorf("%s: %v", got, err)
			continue
		}
		if holds, err := c.Holds([]byte(ready)); holds != tt.holds || err != nil {
			t.Errorf("%s holds %v (%v), want %v", got, holds, err, tt.holds)
		}
	}
}
