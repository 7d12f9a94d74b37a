package report_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/diagnose"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The summary names what limited the plane, with its share and what to try; a run
// without a diagnosis, or whose causes explain next to nothing, has no such part.
func TestSummaryOfWhatLimitedThePlane(t *testing.T) {
	text := summary(t, build(t, reporttest.Shape{Pods: 100, Gave: true}, false), 80)
	for _, want := range []string{"BOTTLENECKS", " %  CPU (kube-scheduler): ", "-> a second scheduler profile"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
	without := build(t, reporttest.Shape{Pods: 100, Gave: true}, false)
	for i := range without.Causes {
		without.Causes[i].Score = 0.04
	}
	for what, r := range map[string]string{
		"no diagnosis": summary(t, build(t, reporttest.Shape{Pods: 100}, false), 80), "nothing worth a line": summary(t, without, 80),
	} {
		if strings.Contains(r, "BOTTLENECKS") {
			t.Errorf("%s: there is a part about it", what)
		}
	}
}

// That nothing limited the plane is an answer of terminal and page.
func TestNothingLimitedIt(t *testing.T) {
	r := build(t, reporttest.Shape{Pods: 100, Gave: true}, false)
	const says = "No bottleneck. Closest to its limit: etcd's log, 35 % in its busiest 5 s."
	r.Causes = []diagnose.Finding{{Rank: 1, Cause: diagnose.Nothing, Sentence: says}}
	if text := strings.Join(strings.Fields(summary(t, r, 80)), " "); !strings.Contains(text, "BOTTLENECKS "+says) {
		t.Errorf("summary: %s", text)
	}
	var page strings.Builder
	repotest.NoError(t, report.WriteHTML(&page, r))
	if !strings.Contains(page.String(), `Bottlenecks</h2>`) || !strings.Contains(page.String(), strings.ReplaceAll(says, "'", "&#39;")) || strings.Contains(page.String(), "Bottlenecks, most limiting first") {
		t.Errorf("the page does not say that nothing did")
	}
}
