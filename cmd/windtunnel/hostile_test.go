package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/opinion/report/live"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/text"
)

// TestHostileRunDirectories opens run directories that were made to do harm with every
// verb that reads one: nothing outside changes, nothing panics, nothing passes, and
// nothing that steers a terminal is said. What it takes is measured in bench/robust.
func TestHostileRunDirectories(t *testing.T) {
	for _, h := range reporttest.HostileRuns() {
		if h.Heavy && testing.Short() {
			continue
		}
		t.Run(h.Name, func(t *testing.T) {
			t.Parallel()
			openHostile(t, h)
		})
	}
}

func openHostile(t *testing.T, h reporttest.Hostile) {
	const content = "nobody's business"
	outside := filepath.Join(t.TempDir(), "outside")
	repotest.NoError(t, os.WriteFile(outside, []byte(content), 0o600))
	folder := t.TempDir()
	repotest.NoError(t, makeRuns(folder))
	dir := record.Dir(filepath.Join(folder, "pass"))
	repotest.NoError(t, h.Make(dir, outside))
	if code := askVerb(t, "judge", string(dir)); h.Judged != (code != exitFault) || code == exitPass && !h.Sound {
		t.Errorf("judge ends with %d", code)
	}
	if !h.Heavy { // the same records would be read again and again
		for _, args := range reading(folder, dir) {
			askVerb(t, args...)
		}
		openPages(t, folder)
	}
	if raw, err := os.ReadFile(outside); err != nil || string(raw) != content {
		t.Errorf("the file outside holds %q, %v", raw, err)
	}
	if left, err := os.ReadDir(filepath.Dir(outside)); err != nil || len(left) != 1 {
		t.Errorf("files outside: %v, %v", left, err)
	}
	if raw, err := dir.Read(record.SummaryFile); err == nil && steers(string(raw)) {
		t.Errorf("%s steers a terminal: %.300q", record.SummaryFile, raw)
	}
	var page bytes.Buffer
	if err := writeMarkdown(string(dir), &page); err == nil && steers(page.String()) {
		t.Errorf("the page of a step's summary steers a terminal: %.300q", page.String())
	}
	if raw, err := record.Dir(filepath.Join(folder, "csv")).Read("calls.csv"); err == nil && strings.Contains(string(raw), "\n=") {
		t.Errorf("a formula in calls.csv: %.300q", raw)
	}
}

// reading are the verbs that read a run directory, beside judge.
func reading(folder string, dir record.Dir) (out [][]string) {
	out = append(out, []string{"report", string(dir)},
		[]string{"compare", "--html", filepath.Join(folder, "compare.html"), filepath.Join(folder, "fail"), "--", string(dir)},
		[]string{"history", "--file", filepath.Join(folder, "history.json"), "--add", string(dir)})
	out = append(out, []string{"site", folder, "-o", filepath.Join(folder, "index.html")})
	for _, format := range []string{"csv", "parquet", "clusterloader2", "kube-burner", "openmetrics", "github", "grafana"} {
		args := []string{"export", format, string(dir)}
		if format != "github" && format != "grafana" {
			args = append(args, "--out", filepath.Join(folder, format))
		}
		out = append(out, args)
	}
	return out
}

// steers says whether a text steers a terminal.
func steers(s string) bool {
	var clean bytes.Buffer
	_, _ = text.NewScreen(&clean).Write([]byte(s))
	return clean.String() != s
}

// askVerb calls a verb and returns its exit code.
func askVerb(t *testing.T, args ...string) int {
	t.Helper()
	var said bytes.Buffer
	env := &environment{stdout: io.Discard, stderr: text.NewScreen(&said)}
	code := guard.Verb(env.stderr, func() int { return executeVerb(t.Context(), env, args) })
	if strings.Contains(said.String(), "windtunnel has a fault") || steers(said.String()) {
		t.Errorf("%q ends with %d: %s", args, code, said.String())
	}
	if code == exitFault && strings.TrimSpace(said.String()) == "" {
		t.Errorf("%q does not say why", args)
	}
	return code
}

// openPages looks at all runs of a folder on the live page.
func openPages(t *testing.T, folder string) {
	t.Helper()
	pages := live.New(live.Options{Roots: []string{folder}, Build: pageOf, Watch: watchRun, Compare: comparePages, Query: queryOf, Clock: clock.Start()})
	defer pages.Close()
	server := httptest.NewServer(pages)
	defer server.Close()
	for _, path := range []string{"/api/runs", "/api/runs/pass/page", "/prometheus/pass/api/v1/query?query=up", "/api/compare?a=fail&b=pass"} {
		answer, err := http.Get(server.URL + path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
}
