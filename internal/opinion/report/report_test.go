package report_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func build(t testing.TB, s reporttest.Shape, pass bool) *content.Report {
	t.Helper()
	d, m, err := reporttest.Write(t.TempDir(), s)
	repotest.NoError(t, err)
	r := content.Build(reporttest.Read(t, d, m), reporttest.Judgement(s, pass), reporttest.Found(t, d))
	return r
}

func html(t testing.TB, r *content.Report) string {
	t.Helper()
	var out bytes.Buffer
	repotest.NoError(t, report.WriteHTML(&out, r))
	return out.String()
}

func summary(t testing.TB, r *content.Report, width int) string {
	t.Helper()
	var out bytes.Buffer
	repotest.NoError(t, report.WriteSummary(&out, r, width))
	return out.String()
}

// shapes are runs that are also worth a look.
func shapes() map[string]struct {
	Shape reporttest.Shape
	Pass  bool
} {
	return map[string]struct {
		Shape reporttest.Shape
		Pass  bool
	}{
		"pass": {reporttest.Shape{}, true},
		"fail": {reporttest.Shape{Slow: 7}, false},
		"torn": {reporttest.Shape{CutOff: true}, false},
	}
}

func TestSummaryIsAsAgreed(t *testing.T) {
	for name, c := range shapes() {
		got := summary(t, build(t, c.Shape, c.Pass), 80)
		path := filepath.Join("testdata", name+".summary.txt")
		repotest.Golden(t, path, got)
	}
}

func TestSummaryKeepsItsWidth(t *testing.T) {
	odd := reporttest.Shape{Pods: 100, Taint: strings.Repeat("-very-long", 12)}
	for _, width := range []int{60, 80, 120} {
		for _, r := range []*content.Report{build(t, odd, false), build(t, reporttest.Shape{Pods: 100}, false)} {
			for line := range strings.SplitSeq(summary(t, r, width), "\n") {
				if n := len([]rune(line)); n > width {
					t.Errorf("%d columns wide, asked for %d: %s", n, width, line)
				}
			}
		}
	}
}

// A run directory that was copied gives the same bytes.
func TestSameDirectorySameBytes(t *testing.T) {
	s := reporttest.Shape{Pods: 300}
	a, b := build(t, s, false), build(t, s, false) // each in a folder of its own
	if html(t, a) != html(t, b) {
		t.Error("report.html depends on where the run lies")
	}
	if summary(t, a, 80) != summary(t, b, 80) {
		t.Error("the summary depends on where the run lies")
	}
}

func TestPageLoadsNothing(t *testing.T) {
	page := html(t, build(t, reporttest.Shape{Pods: 300}, true))
	for _, pattern := range []string{`https?://`, `(?i)<(img|iframe|object|embed|script|link)[^>]+(src|href)="[^"]`, `(?i)@import`, `(?i)url\(`} {
		for _, found := range regexp.MustCompile(pattern).FindAllString(page, -1) {
			if found != `<link rel="icon" href="d` { // an empty icon: browsers would ask for one
				t.Errorf("the page refers to something outside: %q", found)
			}
		}
	}
	if !strings.Contains(page, `http-equiv="Content-Security-Policy" content="default-src &#39;none&#39;; `) {
		t.Error("the page's policy does not forbid everything first")
	}
}

func TestGreatRunIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 pods take some seconds")
	}
	const spike = 54_321
	r := build(t, reporttest.Shape{Nodes: 5000, Pods: 100_000, Asked: 180, Rate: 200, Spike: spike, Slow: 9, Gave: true, Faults: true}, true)
	page := html(t, r)
	if len(page) > 3_000_000 {
		t.Errorf("report.html of 100,000 pods has %d bytes, at most 3 MB are promised", len(page))
	}
	if r.Pods != 100_150 {
		t.Errorf("%d pods in the report", r.Pods)
	}
	p := repotest.Must(report.NewPage(r))(t)
	// One scrape in a run of half an hour, one second of CPU, one slow pod.
	for _, c := range []struct {
		chart, line string
		want        float64
	}{
		{"queues", "deployment", spike},
		{"cpu", "kube-apiserver", highest(r, func(c content.ComponentRow) float64 { return c.Peak })},
		{"memory", "kube-apiserver", highest(r, func(c content.ComponentRow) float64 { return c.Memory })},
		{"startup-time", "slowest, running", float64(r.Startup[0].Max)},
	} {
		got := peak(p, c.chart, c.line)
		if c.chart == "memory" { // which still rises when the run has ended, as the chart shows and the table does not
			got = min(got, c.want)
		}
		if math.Abs(got-c.want) > 1e-4*c.want {
			t.Errorf("the greatest value of %s in the chart %s is %v, in the records %v", c.line, c.chart, got, c.want)
		}
	}
	for _, c := range p.Data.Time {
		for _, l := range c.Lines {
			if len(l.Mean) > 600 {
				t.Errorf("%s in the chart %s has %d points, at most 600 are promised", l.Name, c.ID, len(l.Mean))
			}
		}
	}
}

func highest(r *content.Report, of func(content.ComponentRow) float64) float64 {
	for _, c := range r.Components {
		if c.Name == "kube-apiserver" {
			return of(c)
		}
	}
	return 0
}

// peak is the greatest value that a line of a page is drawn with.
func peak(p report.Page, chart, line string) float64 {
	out := math.Inf(-1)
	for _, c := range p.Data.Time {
		for _, l := range c.Lines {
			if c.ID == chart && l.Name == line {
				for _, v := range append(l.Mean, l.High...) {
					if !math.IsNaN(float64(v)) {
						out = max(out, float64(v))
					}
				}
			}
		}
	}
	return out
}

// Names that a scenario chooses stay text, whatever they hold.
func TestHostileNamesStayText(t *testing.T) {
	const taint = `</script><script>boo()</script><img src=x onerror=boo()>" onload="boo()' {{.}} ]]> & ` + "\x1b[31m"
	r := build(t, reporttest.Shape{Pods: 100, Taint: taint, Gave: true, Faults: true}, false)
	page := html(t, r)
	if n := strings.Count(page, "<script"); n != 2 {
		t.Errorf("%d script elements begin, want 2: the data and the page's own", n)
	}
	if n := strings.Count(page, "</script"); n != 2 {
		t.Errorf("%d script elements end, want 2", n)
	}
	for _, bad := range []string{"<img", ` onload="boo`, "<script>boo"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q as markup", bad)
		}
	}
	if !strings.Contains(page, "&lt;img src=x") {
		t.Error("the hostile name is not in the page at all")
	}
	if s := summary(t, r, 80); strings.ContainsRune(s, '\x1b') {
		t.Error("the summary lets a name steer the terminal")
	}
}

// Without JavaScript the verdict and all tables are there.
func TestTablesNeedNoScript(t *testing.T) {
	page := html(t, build(t, reporttest.Shape{}, false))
	page = page[:strings.Index(page, `<script type="application/json"`)]
	for _, want := range []string{
		"3 of 54 objectives are missed", "p99 of pod startup", "7.21 s", "≤ 5 s", "6.9 – 7.61 s", "the histogram only says that it lies between 0.75 and 1.25.",
		"pod_startup_p99_seconds", "kube-controller-manager", "An example of a published report, 2022", "--unsafe-no-fsync", "windtunnel run examples/density.yaml",
		"created → running", "Example CPU @ 2.60GHz",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page without its script lacks %q", want)
		}
	}
}

func TestUnfinishedRunsAreToldApart(t *testing.T) {
	s := reporttest.Shape{Pods: 200, CutOff: true}
	d, m, err := reporttest.Write(t.TempDir(), s)
	repotest.NoError(t, err)
	raw := repotest.Must(os.ReadFile(d.File(record.StreamFile)))(t)
	for name, c := range map[string]struct {
		keep int
		want string
	}{
		"killed": {len(raw), "Without an end"},
		"torn":   {len(raw) - 3, "Cut off: the last"},
	} {
		repotest.NoError(t, os.WriteFile(d.File(record.StreamFile), raw[:c.keep], 0o600))
		r := content.Build(reporttest.Read(t, d, m), slo.Judgement{Scenario: m.Scenario, Verdict: slo.Unknown}, reporttest.Found(t, d))
		if f := r.Trust[0]; f.Level != content.Bad || !strings.HasPrefix(f.Text, c.want) {
			t.Errorf("%s: %v", name, f)
		}
		if page := html(t, r); !strings.Contains(page, "No verdict: there was nothing to judge.") {
			t.Errorf("%s: the page does not say that there is no verdict", name)
		}
	}
}

// A stream with nothing in it but its header still gives a report.
func TestEmptyRun(t *testing.T) {
	d := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), "run")))(t)
	w := repotest.Must(record.Create(d.File(record.StreamFile)))(t)
	repotest.NoError(t, w.Close())
	r := content.Build(reporttest.Read(t, d, record.Manifest{Scenario: "nothing"}), slo.Judgement{Verdict: slo.Unknown, Reasons: []string{"the plane did not start"}}, reporttest.Found(t, d))
	if page := html(t, r); !strings.Contains(page, "No verdict: the plane did not start.") {
		t.Error("the page does not give the reason")
	}
	summary(t, r, 80)
}

func BenchmarkBuild(b *testing.B) {
	s := reporttest.Shape{Pods: 30_000, Nodes: 1000, Asked: 200}
	d, m, err := reporttest.Write(b.TempDir(), s)
	repotest.NoError(b, err)
	j := reporttest.Judgement(s, true)
	for b.Loop() {
		r := content.Build(reporttest.Read(b, d, m), j, reporttest.Found(b, d))
		html(b, r)
	}
	b.ReportMetric(30_000*float64(b.N)/b.Elapsed().Seconds(), "pods/sec")
}
