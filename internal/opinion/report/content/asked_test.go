package content

import (
	"math"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestAskedCharts holds that the report draws what a scenario asks for, a line for each
// series of the answer, and says of what it cannot draw why.
func TestAskedCharts(t *testing.T) {
	dir, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{})
	repotest.NoError(t, err)
	r := reporttest.Read(t, dir, m)
	r.Scenario.Charts = []scenario.Chart{
		{Name: "resident", Query: `process_resident_memory_bytes{job=~"etcd|kube-apiserver"}`, Unit: "bytes", Stacked: true},
		{Name: "nothing", Query: "no_such_metric"},
		{Name: "nonsense", Query: "sum by ("},
	}
	got := askedCharts(r)
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
	if !got[0].Stacked || got[1].Stacked {
		t.Errorf("stacked: %v and %v, want the first alone", got[0].Stacked, got[1].Stacked)
	}
	for _, c := range got[1:] {
		if c.Note == "" || len(c.Lines) > 0 {
			t.Errorf("%s: note %q, %d lines", c.Title, c.Note, len(c.Lines))
		}
	}
}

// TestAStackIsAsHighAsTheWhole holds that a stack of more parts than a picture has room
// for keeps its height: the smallest are one line, whatever their names.
func TestAStackIsAsHighAsTheWhole(t *testing.T) {
	var lines []Line
	for i := range maxAsked + 2 {
		lines = append(lines, Line{Name: string(rune('a' + i)), Mean: []Num{Num(i + 1), Num(math.NaN())}})
	}
	lines[2].Mean[1] = 100 // c was large once, a and b never
	got := foldSmallest(lines, maxAsked)
	rest := got[len(got)-1]
	if len(got) != maxAsked || got[0].Name != "c" || rest.Name != "3 others" {
		t.Fatalf("%d lines from %s to %s, want c to 3 others", len(got), got[0].Name, rest.Name)
	}
	var high Num
	for _, l := range got {
		high += l.Mean[0]
	}
	if want := Num((maxAsked + 2) * (maxAsked + 3) / 2); high != want || rest.Mean[0] != 1+2+4 {
		t.Errorf("the stack is %v high, %v of it others, want %v and 7", high, rest.Mean[0], want)
	}
	if !math.IsNaN(float64(rest.Mean[1])) {
		t.Errorf("none of the others has a second value, their sum has %v", rest.Mean[1])
	}
	if lines[0].Mean[0] != 1 {
		t.Errorf("a is %v now", lines[0].Mean[0])
	}
	if few := foldSmallest(lines[:maxAsked], maxAsked); len(few) != maxAsked || few[0].Name != "a" {
		t.Errorf("%d lines from %s of as many as there is room for", len(few), few[0].Name)
	}
}
