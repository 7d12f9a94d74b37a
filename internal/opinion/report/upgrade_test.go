package report_test

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	facts "github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestUpgradeNamesItsWorstPart(t *testing.T) {
	s := func(n float64) clock.Time { return clock.Time(n * float64(time.Second)) }
	r := build(t, reporttest.Shape{Pods: 10}, true)
	last := &r.Steps[len(r.Steps)-1]
	last.Parts = []facts.Part{
		{Step: "up", Name: "etcd-0", From: "v3.6.12", To: "v3.7.0", Begin: s(10), End: s(11.5), Until: s(12)},
		{Step: "up", Name: "kube-apiserver-1", From: "v1.36.3", To: "v1.37.1", Begin: s(12), End: s(16), Until: s(16), Outages: 2, Longest: 1200 * time.Millisecond, Unserved: 1500 * time.Millisecond, Note: "it died: <no luck>"},
	}
	var b strings.Builder
	repotest.NoError(t, report.WriteSummary(&b, r, 80))
	for _, want := range []string{
		"\netcd-0  v3.6.12 to v3.7.0                  1.5 s        –          –           –\n",
		"\nkube-apiserver-1  v1.36.3 to v1.37.1         4 s        2      1.2 s       1.5 s\n    it died: <no luck>.\n",
		"\nWorst: kube-apiserver-1 of step up, when calls of the load were not served for\n1.2 s, of 1.5 s in all.\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the summary lacks %q:\n%s", want, b.String())
		}
	}
	page := html(t, r)
	for _, want := range []string{`<h3 class="sub">Upgrade</h3>`, `<th scope="row">kube-apiserver-1</th><td>up</td><td>v1.36.3 to v1.37.1</td>`, "it died: &lt;no luck&gt;.", "Worst: kube-apiserver-1 of step up"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	last.Parts = last.Parts[:1]
	if page := html(t, r); !strings.Contains(page, "Calls of the load were served throughout.") {
		t.Error("the page does not say that calls were served")
	}
	// Without a call nothing was served: that is no good news.
	last.Parts = []facts.Part{{Step: "up", Name: "etcd-0", Until: s(12)}, {Step: "up", Name: "nodes", Uncalled: true}}
	if page := html(t, r); !strings.Contains(page, "Calls of the load were served during the other parts. No call of the load was due during nodes: whether calls would be served is not known.") {
		t.Error("the page does not say of which part nothing is known")
	}
	last.Parts = last.Parts[1:]
	if page := html(t, r); strings.Contains(page, "served throughout") || !strings.Contains(page, "No call of the load was due during nodes") {
		t.Error("the page says that calls were served, and there were none")
	}
	last.Parts = nil
	if page := html(t, r); strings.Contains(page, "Upgrade</h3>") {
		t.Error("a run without an upgrade has one")
	}
}
