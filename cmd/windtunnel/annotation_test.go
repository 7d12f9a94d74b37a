package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Each reason is one command, whatever stands in it.
func TestAnnotations(t *testing.T) {
	var many []string
	for n := range 12 {
		many = append(many, fmt.Sprintf("reason %d", n))
	}
	for _, v := range []struct {
		j    slo.Judgement
		want string
	}{
		{slo.Judgement{Scenario: "a: b, c", Verdict: slo.Fail, Reasons: []string{"50 % above\n::notice::its bound"}},
			"::error title=windtunnel a%3A b%2C c%3A FAIL::50 %25 above%0A::notice::its bound\n"},
		{slo.Judgement{Scenario: "s", Verdict: slo.Unknown, Reasons: []string{"one", "two"}},
			"::warning title=windtunnel s%3A UNKNOWN::one\n::warning title=windtunnel s%3A UNKNOWN::two\n"},
		{slo.Judgement{Scenario: "s", Verdict: slo.Pass, Objectives: make([]slo.Result, 3)},
			"::notice title=windtunnel s%3A PASS::3 of 3 objectives passed.\n"},
		{slo.Judgement{Scenario: "s", Verdict: slo.Fail, Reasons: many}, "::error title=windtunnel s%3A FAIL::The run's report has 3 more reasons.\n"},
	} {
		dir := record.Dir(t.TempDir())
		raw := repotest.Must(json.Marshal(v.j))(t)
		repotest.NoError(t, dir.Write(record.VerdictFile, raw))
		var got strings.Builder
		repotest.NoError(t, printAnnotations(&got, dir))
		if n := strings.Count(got.String(), "\n"); !strings.HasSuffix(got.String(), v.want) || n > 10 {
			t.Errorf("%d lines\n%s\nwant\n%s", n, got.String(), v.want)
		}
	}
}
