package report_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A plane whose components share limits has a row of its own, their sum, and says
// whether the limits hold.
func TestThePlaneAsAWhole(t *testing.T) {
	s := reporttest.Shape{Pods: 50}
	d, m, err := reporttest.Write(t.TempDir(), s)
	repotest.NoError(t, err)
	m.Plane.CPULimit, m.Plane.MemoryLimit, m.Plane.Limited = 0.01, 4<<30, true
	r := content.Build(reporttest.Read(t, d, m), reporttest.Judgement(s, true), nil)
	var whole content.ComponentRow
	sum, greatest := 0.0, 0.0
	for _, c := range r.Components {
		switch {
		case c.Name == "the plane as a whole":
			whole = c
		case c.Name != "windtunnel" && whole.Name == "":
			sum, greatest = sum+c.CPUSeconds, max(greatest, c.Memory)
		}
	}
	if sum == 0 || math.Abs(whole.CPUSeconds-sum) > 1e-9 || whole.Memory <= greatest || whole.Peak != 0.01 || whole.CPULimit != 0.01 {
		t.Errorf("%+v, of components that used %v s and at most %v bytes", whole, sum, greatest)
	}
	for inForce, want := range map[bool][]string{
		true:  {"All components together", "0.01 cores, 4 GiB", "the plane."},
		false: {"0.01 cores, 4 GiB (not in force)", "Not in force for", "Not in force for the plane"},
	} {
		m.Plane.Limited = inForce
		var page bytes.Buffer
		repotest.NoError(t, report.WriteHTML(&page, content.Build(reporttest.Read(t, d, m), reporttest.Judgement(s, true), nil)))
		for _, text := range want {
			if !strings.Contains(page.String(), text) {
				t.Errorf("in force %v: the page does not say %q", inForce, text)
			}
		}
	}
}
