package report_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestMarkdown(t *testing.T) {
	value := 0.25
	objective := func(name string, v slo.Verdict) content.Objective {
		return content.Objective{Result: slo.Result{Name: name, Statistic: "p99", Value: &value, Unit: "seconds", Threshold: 1, Verdict: v, Samples: 1200, Warnings: []string{"a|b"}}, Used: 0.25}
	}
	r := &content.Report{
		Manifest:  record.Manifest{Scenario: "a_b<script>", Seed: 7},
		Judgement: slo.Judgement{Verdict: slo.Fail},
		Startup:   []content.Spread{{Phase: "created to running", Group: "fill", N: 5, Bounded: 2, Open: 1}, {Phase: "created to bound", Group: "fill", N: 8}},
		Objectives: []content.Objective{objective("reads", slo.Fail), objective("1", slo.Pass), objective("2", slo.Pass), objective("3", slo.Pass),
			objective("4", slo.Pass), objective("5", slo.Pass), objective("6", slo.Pass)},
	}
	b := &strings.Builder{}
	repotest.NoError(t, report.WriteMarkdown(b, r))
	got := b.String()
	for _, want := range []string{
		"### ❌ a\\_b&lt;script&gt;: Fail", `| fail | p99 of reads: a\|b | 250 ms | ≤ 1 s | 25 % | 1,200 |`,
		"<summary>1 more objective, all met</summary>", "seed 7",
		"| created → running | fill: of these 2 within bounds (a watch was interrupted or late), 1 not seen to end | 8 |", "| created → bound | fill | 8 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if before, _, _ := strings.Cut(got, "<details>"); strings.Count(before, "| pass |") != 5 {
		t.Errorf("5 met objectives must be in sight:\n%s", got)
	}
	for _, v := range []slo.Verdict{slo.Pass, slo.Unknown} {
		r.Judgement.Verdict = v
		b.Reset()
		if err := report.WriteMarkdown(b, r); err != nil || !strings.Contains(b.String(), map[slo.Verdict]string{slo.Pass: "✅", slo.Unknown: "❔"}[v]) {
			t.Errorf("%s: %v\n%s", v, err, b.String())
		}
	}
}
