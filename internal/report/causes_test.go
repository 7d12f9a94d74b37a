package report_test

import (
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/report/reporttest"
)

// The summary names what limited the plane, with its share and what to try; a run
// without a diagnosis, or whose causes explain next to nothing, has no such part.
func TestSummaryOfWhatLimitedThePlane(t *testing.T) {
	text := summary(t, build(t, reporttest.Shape{Pods: 100, Gave: true}, false), 80)
	for _, want := range []string{"WHAT LIMITED IT", " %  CPU (kube-scheduler): ", "-> a second scheduler profile"} {
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
		if strings.Contains(r, "WHAT LIMITED IT") {
			t.Errorf("%s: there is a part about it", what)
		}
	}
}
