package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/consistency"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestWritesOfProbes(t *testing.T) {
	s := func(n float64) clock.Time { return clock.Time(n * float64(time.Second)) }
	r := build(t, reporttest.Shape{Pods: 10}, true)
	last := &r.Steps[len(r.Steps)-1]
	if page := html(t, r); strings.Contains(page, "Writes of step") {
		t.Error("a run without a probe has writes of one")
	}
	step := "Writes of step " + last.Name + ": "
	for _, c := range []struct {
		writes consistency.Report
		want   string
	}{
		{consistency.Report{Acknowledged: 40}, "40 acknowledged, 0 unknown; no violation."},
		{consistency.Report{Acknowledged: 40, Unknown: 9, TookEffect: 2, Gap: consistency.Gap{From: s(15.04), To: s(38), Writes: 9}},
			"40 acknowledged, 9 unknown, of which 2 took effect; no violation. From 15.0 s to 38.0 s no write was acknowledged, and 9 writes were sent: what is not acknowledged cannot be lost."},
		{consistency.Report{Acknowledged: 40, Unknown: 1, Gap: consistency.Gap{From: s(15), To: s(15.9), Writes: 1}, Violations: []consistency.Violation{{Rule: consistency.Lost}}},
			"40 acknowledged, 1 unknown, of which 0 took effect; 1 violation."},
		{consistency.Report{Unknown: 1, Gap: consistency.Gap{From: s(1), To: s(2), Writes: 1}, Incomplete: []string{"no list"}},
			"0 acknowledged, 1 unknown, of which 0 took effect; not checked to the end. From 1.0 s to 2.0 s no write was acknowledged, and 1 write was sent: what is not acknowledged cannot be lost."},
	} {
		last.Writes = &c.writes
		var b strings.Builder
		repotest.NoError(t, report.WriteSummary(&b, r, 80))
		if got := strings.Join(strings.Fields(b.String()), " "); !strings.Contains(got, step+c.want) {
			t.Errorf("the summary lacks %q:\n%s", c.want, b.String())
		}
		if page := html(t, r); !strings.Contains(page, step+c.want+"</p>") {
			t.Errorf("the page lacks %q", c.want)
		}
	}
}
