package report_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Lifecycles that the scenario declares have a section of the page and a part of the
// summary.
func TestDeclaredLifecyclesAreShown(t *testing.T) {
	d, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 50, Machines: 40})
	repotest.NoError(t, err)
	r := content.Build(reporttest.Read(t, d, m), slo.Judgement{Verdict: slo.Unknown}, reporttest.Found(t, d))
	p := repotest.Must(report.NewPage(r))(t)
	for _, want := range []string{`<section id="lifecycle-1"`, "How long the lifecycles of vmi took", "created → ready", `data-chart="lifecycle-1"`, `class="chip p10"`, "&gt; "} {
		if !strings.Contains(string(p.Main), want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	var text strings.Builder
	if err := report.WriteSummary(&text, r, 80); err != nil || !strings.Contains(text.String(), "\nVMI  ") {
		t.Errorf("the summary lacks the life: %v", err)
	}
	if want := "of these 39 not seen to end"; !strings.Contains(text.String(), want) {
		t.Errorf("the summary does not say %q:\n%s", want, text.String())
	}
}
