package report

import (
	"fmt"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
)

// mapOf is a map of a plane, so many members, and a path that two steps measured.
func mapOf(members int) *content.Map {
	m := &content.Map{Plane: []string{"1 node of its own"},
		Paths: []content.MapPath{{From: "pod-a 198.18.1.1", To: "198.18.2.1", Found: []string{"idle: 5 ms p50, 10 ms p99", "full-1: 19.6 Gbit/s"}}}}
	for i := range members {
		m.Members = append(m.Members, content.MapMember{Name: fmt.Sprintf("far-%d", i+1), About: []string{"hollow", "5,000 nodes", "20 ms away"}})
	}
	return m
}

// TestMapPicture holds that all that is drawn lies in the picture, that boxes lie beside
// each other, and that what is left out is said.
func TestMapPicture(t *testing.T) {
	for _, members := range []int{1, 2, 7, 100} {
		v := newMapView(mapOf(members))
		for i, b := range v.Boxes {
			if b.X < 0 || b.Y < 0 || b.X+b.W > v.Width || b.Y+b.H > v.Height {
				t.Errorf("%d members: box %s at %v, %v of %v, %v", members, b.Name, b.X, b.Y, v.Width, v.Height)
			}
			for _, other := range v.Boxes[:i] {
				if b.X < other.X+other.W && other.X < b.X+b.W && b.Y < other.Y+other.H && other.Y < b.Y+b.H {
					t.Errorf("%d members: %s lies over %s", members, b.Name, other.Name)
				}
			}
		}
		if drawn := min(members, mapColumns*mapRows); len(v.Boxes) != 1+drawn+2 || (v.Note != "") != (members > drawn) {
			t.Errorf("%d members: %d boxes, note %q", members, len(v.Boxes), v.Note)
		}
		page, err := renderTemplate("run", &view{Report: &content.Report{}, MapView: v})
		if err != nil || strings.Count(string(page), "<rect") != len(v.Boxes) || !strings.Contains(string(page), "19.6 Gbit/s") {
			t.Errorf("%v\n%s", err, page)
		}
	}
}

func TestNoMapNoPicture(t *testing.T) {
	if newMapView(nil) != nil {
		t.Error("a picture of no map")
	}
}
