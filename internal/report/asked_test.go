package report

import (
	"math"
	"testing"

	"github.com/windtunnel/windtunnel/internal/report/reporttest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestAskedCharts holds that the report draws what a scenario asks for, a line for each
// series of the answer, and says of what it cannot draw why.
func TestAskedCharts(t *testing.T) {
	dir, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	r := reporttest.Read(t, dir, m)
	r.Scenario.Charts = []scenario.Chart{
		{Name: "resident", Query: `process_resident_memory_bytes{job=~"etcd|kube-apiserver"}`, Unit: "bytes"},
		{Name: "nothing", Query: "no_such_metric"},
		{Name: "nonsense", Query: "sum by ("},
	}
	got := newTally(r).askedCharts()
	if len(got) != 3 || len(got[0].Lines) != 2 || got[0].Title != "resident" || got[0].Unit != "bytes" {
		t.Fatalf("charts %+v", got)
	}
	for i, name := range []string{"etcd", "kube-apiserver"} {
		line, points := got[0].Lines[i], 0
		for _, v := range line.Mean {
			if !math.IsNaN(float64(v)) && v > 0 {
				points++
			}
		}
		if line.Name != name || points == 0 {
			t.Errorf("line %d is %s with %d points, want %s", i, line.Name, points, name)
		}
	}
	for _, c := range got[1:] {
		if c.Note == "" || len(c.Lines) > 0 {
			t.Errorf("%s: note %q, %d lines", c.Title, c.Note, len(c.Lines))
		}
	}
}
