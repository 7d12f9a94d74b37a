package report_test

import (
	unescape "html"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// words is what a page says, a line for each row, item and paragraph.
func words(p report.Page) string {
	s := regexp.MustCompile(`\s+`).ReplaceAllString(string(p.Main), " ")
	s = regexp.MustCompile(`<span class="glyph" role="img" aria-label="([^"]*)">[^<]*</span>`).ReplaceAllString(s, "[$1] ")
	s = regexp.MustCompile(`</(p|li|tr|h1|h2|h3|div|summary|ul|ol|pre)>`).ReplaceAllString(s, "\n")
	s = regexp.MustCompile(`<[^>]*>`).ReplaceAllString(s, " ")
	var out []string
	for line := range strings.SplitSeq(unescape.UnescapeString(s), "\n") {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n") + "\n"
}

// TestPagesSayWhatWasAgreed holds the words of pages against golden files.
func TestPagesSayWhatWasAgreed(t *testing.T) {
	pages := map[string]report.Page{
		"running":    page(t, reporttest.Shape{CutOff: true}, true),
		"comparison": compared(t, 2, 4, reporttest.Shape{Pods: 100, Latency: 10}),
	}
	for name, c := range shapes() {
		s := c.Shape
		s.Gave, s.Faults = !c.Pass, !c.Pass
		p := repotest.Must(report.NewPage(build(t, s, c.Pass)))(t)
		pages[name] = p
	}
	for name, p := range pages {
		got := words(p)
		path := filepath.Join("testdata", name+".page.txt")
		repotest.Golden(t, path, got)
	}
}
