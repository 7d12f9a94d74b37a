package chart_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/text/chart"
)

func example() chart.Chart {
	return chart.Chart{
		Title: "How many pods", Note: "the edge lies between 2,000 and 4,000",
		X: chart.Axis{Label: "pods", Log: true}, Y: chart.Axis{Label: "p99 of pod startup", Unit: "seconds", Zero: true},
		Areas: []chart.Area{{Role: chart.Pass, Points: []chart.Point{{X: 1000, Y: 0}, {X: 2000, Y: 0}, {X: 2000, Y: 9}, {X: 1000, Y: 9}}}},
		Lines: []chart.Line{{Role: chart.Bound, Label: "bound 5 s", Points: []chart.Point{{X: 1000, Y: 5}, {X: 8000, Y: 5}}}, {Role: chart.Plain, Points: []chart.Point{{X: 1000, Y: 1}, {X: 2000, Y: 2}, {X: 4000, Y: 9}}}},
		Marks: []chart.Mark{{Point: chart.Point{X: 1000, Y: 1}, Role: chart.Pass, Label: "1,000: <pass> & more"}, {Point: chart.Point{X: 4000, Y: 9}, Role: chart.Fail},
			{Point: chart.Point{X: 8000, Y: 3}, Role: chart.Unknown}, {Point: chart.Point{X: 2000, Y: math.NaN()}, Role: chart.Plain}},
	}
}

func draw(t *testing.T, c chart.Chart) string {
	t.Helper()
	var out strings.Builder
	repotest.NoError(t, c.SVG(&out))
	return out.String()
}

// wellFormed reads the whole image as XML.
func wellFormed(text string) error {
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestGolden(t *testing.T) {
	got := draw(t, example())
	const path = "testdata/chart.svg"
	repotest.Golden(t, path, got)
	if err := wellFormed(got); err != nil {
		t.Error(err)
	}
	if strings.Contains(got, "NaN") || strings.Contains(got, "<pass>") {
		t.Error("a value that is none, or a text that is not escaped, was written")
	}
}

// Whatever the values are, all lies inside the picture, and it is XML.
func TestOddValues(t *testing.T) {
	for name, points := range map[string][]chart.Point{
		"one":      {{X: 1, Y: 1}},
		"zero":     {{X: 0, Y: 0}},
		"equal":    {{X: 5, Y: 7}, {X: 5, Y: 7}},
		"negative": {{X: -1, Y: -5}, {X: 3, Y: 2}},
		"tiny":     {{X: 1e-12, Y: 1e-9}, {X: 2e-12, Y: 3e-9}},
		"huge":     {{X: 1, Y: 1}, {X: 1e15, Y: 1e18}},
	} {
		for _, log := range []bool{false, true} {
			c := chart.Chart{Title: "a\x01\"b", X: chart.Axis{Log: log}, Y: chart.Axis{Log: log, Zero: true}}
			for _, p := range points {
				c.Marks = append(c.Marks, chart.Mark{Point: p, Role: chart.Pass})
			}
			got := draw(t, c)
			if err := wellFormed(got); err != nil {
				t.Errorf("%s, log %v: %v", name, log, err)
			}
			for line := range strings.Lines(got) {
				var x, y float64
				if n, _ := fmt.Sscanf(line, `<circle class="mark" fill="var(--pass)" cx="%f" cy="%f"`, &x, &y); n == 2 && (x < 80 || x > 830 || y < 20 || y > 440) {
					t.Errorf("%s, log %v: a mark at %v, %v", name, log, x, y)
				}
			}
			if ticks := strings.Count(got, `class="grid"`); ticks < 2 || ticks > 40 {
				t.Errorf("%s, log %v: %d lines of the grid", name, log, ticks)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	if err := (chart.Chart{}).SVG(io.Discard); !errors.Is(err, chart.ErrEmpty) {
		t.Error(err)
	}
}
