package site_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/opinion/site"
	"github.com/windtunnel/windtunnel/internal/opinion/site/sitetest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

const bundle = "../../../experiments/0026-published-bundle/density.wtb"

// write makes a page of sources and returns it with the data in it.
func write(t *testing.T, folder string, sources ...string) (site.Summary, string, site.Data) {
	t.Helper()
	var page bytes.Buffer
	summary := repotest.Must(site.Write(t.Context(), &page, site.Options{Sources: sources, Folder: folder}))(t)
	raw := regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`).FindSubmatch(page.Bytes())
	if raw == nil {
		t.Fatal("no data in the page")
	}
	var data struct{ Site site.Data }
	repotest.NoError(t, json.Unmarshal(raw[1], &data))
	return summary, page.String(), data.Site
}

// run writes a run directory that passed; edit changes it before.
func run(t *testing.T, folder string, edit func(m *record.Manifest, j *slo.Judgement)) {
	t.Helper()
	m := record.Manifest{Format: record.Format, Scenario: "small", Seed: 7, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Parameters: map[string]any{"rate": 50}, Versions: map[string]string{"kubernetes": "v1.37.1"}, Machine: record.Machine{Cores: 2, CPU: "made up", Arch: "amd64"}}
	j := slo.Judgement{Verdict: slo.Pass, Measures: slo.Measures{"pod_startup_p99_seconds": {Value: 0.123456, Unit: "seconds"}, "host_busy_share": {Value: 0.5, Unit: "ratio"}}}
	if edit != nil {
		edit(&m, &j)
	}
	d := repotest.Must(record.CreateDir(folder))(t)
	repotest.NoError(t, d.WriteJSON(record.ManifestFile, m))
	repotest.NoError(t, d.WriteJSON(record.VerdictFile, j))
	repotest.NoError(t, d.Write(record.ScenarioFile, []byte("scenario: small\n")))
}

func TestTrends(t *testing.T) {
	folder := t.TempDir()
	sitetest.Write(t, folder, sitetest.Shape{From: kept, Scenarios: 2, Runs: 60})
	summary, page, data := write(t, folder, folder)
	if summary.Runs != 120 || summary.Scenarios != 2 || summary.Series != 2 || len(summary.LeftOut) != 0 {
		t.Errorf("%+v", summary)
	}
	first := data.Series[slices.IndexFunc(data.Series, func(s *site.Series) bool { return s.Scenario == "density-00" })]
	if got := data.Measures[first.Measures[0]].Key; got != sitetest.Slower {
		t.Fatalf("the measure that changed is %s", got)
	}
	if c := first.Changes[0]; len(c) != 1 || c[0].At != 40 || c[0].State != "worse" || !strings.Contains(c[0].Sentence, "kubernetes v1.37.2 in place of v1.37.1") {
		t.Errorf("changes: %+v", c)
	}
	for verdict, want := range map[string]int{"p": 47, "f": 9, "u": 4} {
		if got := strings.Count(first.Verdicts, verdict); got != want {
			t.Errorf("%d runs are %s, want %d", got, verdict, want)
		}
	}
	if first.Reports[0] != "./density-00/00000/report.html" || first.Reports[1] != "" {
		t.Errorf("reports: %q", first.Reports[:2])
	}
	if !strings.Contains(page, "4 runs are not searched for changes: the verdict is unknown.") {
		t.Error("the page does not say that unknown runs are not searched")
	}
	if _, again, _ := write(t, folder, folder); again != page {
		t.Error("the same runs give another page")
	}
}

// TestSeries has a case for what makes two runs one series or two.
func TestSeries(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(m *record.Manifest, j *slo.Judgement)
		series int
		label  string
	}{
		"another version":  {func(m *record.Manifest, _ *slo.Judgement) { m.Versions = map[string]string{"kubernetes": "v1.36.0"} }, 1, ""},
		"another rate":     {func(m *record.Manifest, _ *slo.Judgement) { m.Parameters = map[string]any{"rate": 100} }, 2, "rate=100"},
		"another machine":  {func(m *record.Manifest, _ *slo.Judgement) { m.Machine.Cores = 4 }, 2, "4 cores, made up, 0 B, amd64"},
		"another scenario": {func(m *record.Manifest, _ *slo.Judgement) { m.Scenario = "large" }, 2, ""},
		"another measure":  {func(_ *record.Manifest, j *slo.Judgement) { j.Measures = slo.Measures{} }, 1, ""},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			run(t, filepath.Join(folder, "a"), nil)
			run(t, filepath.Join(folder, "b"), func(m *record.Manifest, j *slo.Judgement) {
				m.Started = m.Started.Add(time.Hour)
				c.edit(m, j)
			})
			_, _, data := write(t, folder, folder)
			if len(data.Series) != c.series || data.Series[0].Label != c.label {
				t.Errorf("%d series, the newest is %q", len(data.Series), data.Series[0].Label)
			}
		})
	}
}

// TestLeftOut has a case for each run directory that cannot be on the page: it is named, and
// the others are there.
func TestLeftOut(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, folder string)
		why   string
	}{
		"no verdict":          {func(t *testing.T, f string) { repotest.NoError(t, os.Remove(filepath.Join(f, record.VerdictFile))) }, "windtunnel judge writes it"},
		"verdict is cut off":  {file(record.VerdictFile, `{"verdict": "pa`), "not JSON: it ends too early"},
		"verdict of no kind":  {file(record.VerdictFile, `{"verdict": "great"}`), `its verdict is "great"`},
		"a number too large":  {file(record.VerdictFile, `{"verdict": "pass", "measures": {"cpu_seconds_etcd": {"value": 1e999}}}`), "1e999"},
		"manifest is a list":  {file(record.ManifestFile, `[]`), "it is a list, and not a mapping"},
		"a newer manifest":    {file(record.ManifestFile, `{"format": 99}`), "format 99, this version reads formats"},
		"no time":             {file(record.ManifestFile, `{"format": 2}`), "does not say when it was run"},
		"too many measures":   {file(record.VerdictFile, `{"verdict": "pass", "measures": {`+manyMeasures()+`}}`), "more than 500 measures"},
		"verdict is too long": {file(record.VerdictFile, strings.Repeat(" ", record.MaxFile+1)), "too large"},
		"verdict is a link": {func(t *testing.T, f string) {
			repotest.NoError(t, os.Remove(filepath.Join(f, record.VerdictFile)))
			repotest.NoError(t, os.Symlink("../good/"+record.VerdictFile, filepath.Join(f, record.VerdictFile)))
		}, "a link, which is not followed"},
		"a bundle that is none": {func(t *testing.T, f string) {
			repotest.NoError(t, os.RemoveAll(f))
			repotest.NoError(t, os.Symlink("/dev/zero", f+".wtb"))
			repotest.NoError(t, os.Symlink("good", f))
			repotest.NoError(t, os.MkdirAll(filepath.Join(filepath.Dir(f), strings.Repeat("d/", 10)), 0o700))
		}, "more than 8 folders deep"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			run(t, filepath.Join(folder, "good"), nil)
			run(t, filepath.Join(folder, "bad"), nil)
			c.spoil(t, filepath.Join(folder, "bad"))
			summary, _, _ := write(t, folder, folder)
			if summary.Runs != 1 || summary.Bundles != 0 || len(summary.LeftOut) != 1 || !strings.Contains(summary.LeftOut[0], c.why) {
				t.Errorf("%+v", summary)
			}
			if strings.Contains(strings.Join(summary.LeftOut, ""), folder) {
				t.Errorf("the path of this machine is on the page: %q", summary.LeftOut)
			}
		})
	}
}

func file(name, content string) func(*testing.T, string) {
	return func(t *testing.T, folder string) {
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600))
	}
}

func manyMeasures() string {
	var all []string
	for i := range 501 {
		all = append(all, `"cpu_seconds_`+string(rune('a'+i%26))+strings.Repeat("x", i/26)+`": {"value": 1, "unit": "seconds"}`)
	}
	return strings.Join(all, ",")
}

// TestTextsStayTexts writes markup, scripts and addresses wherever somebody may choose a text.
func TestTextsStayTexts(t *testing.T) {
	const evil = `</script><img src=x onerror=alert(1)>`
	parent := t.TempDir()
	folder := filepath.Join(parent, "javascript:alert(1)")
	run(t, filepath.Join(folder, "a#b?c"), func(m *record.Manifest, j *slo.Judgement) {
		m.Scenario, m.Parameters, m.Versions = evil, map[string]any{evil: evil}, map[string]string{evil: evil}
		m.Machine.CPU = evil
		j.Measures[evil] = slo.Measure{Value: 1, Unit: evil, Own: true, Better: "lower"}
		j.Measures["cpu_seconds_"+strings.Repeat("y", 10_000)] = slo.Measure{Value: 1}
	})
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "a#b?c", record.ReportFile), nil, 0o600))
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, evil[2:8]+".wtb"), []byte(evil), 0o600))
	_, page, data := write(t, parent, folder)
	if strings.Contains(page, "<img") || strings.Count(page, "</script>") != 2 {
		t.Error("a text is markup")
	}
	if strings.Contains(page, strings.Repeat("y", 1000)) {
		t.Error("a long name is not cut")
	}
	if got := data.Series[0].Reports[0]; got != "./javascript:alert%281%29/a%23b%3Fc/report.html" {
		t.Errorf("link %q", got)
	}
}

// TestBundles shows a bundle's claims only where it was verified, and a run once that is in
// a history file too.
func TestBundles(t *testing.T) {
	folder := t.TempDir()
	raw := repotest.Must(os.ReadFile(bundle))(t)
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "good.wtb"), raw, 0o600))
	summary, page, data := write(t, folder, folder)
	if summary.Bundles != 1 || summary.Runs != 1 || !strings.Contains(page, "Level: measured.") || !strings.Contains(page, "p99 pod startup is at most 1 s") || !strings.Contains(page, "It cannot be told whether it holds") {
		t.Errorf("%+v", summary)
	}
	if got := data.Series[0].Names; got[0] != filepath.Base(folder)+"/good.wtb/density" {
		t.Errorf("names %q", got)
	}
	raw[len(raw)/2] ^= 1
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "good.wtb"), raw, 0o600))
	if summary, page, _ = write(t, folder, folder); summary.Bundles != 1 || summary.Runs != 0 || strings.Contains(page, "p99 pod startup") || !strings.Contains(page, "Does not hold") {
		t.Errorf("%+v", summary)
	}
}

func TestNothing(t *testing.T) {
	folder := t.TempDir()
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "x.txt"), nil, 0o600))
	for source, want := range map[string]error{folder: site.ErrNothing, folder + "/none": os.ErrNotExist} {
		if _, err := site.Write(t.Context(), &bytes.Buffer{}, site.Options{Sources: []string{source}, Folder: folder}); !errors.Is(err, want) {
			t.Errorf("%s: %v", source, err)
		}
	}
}
