package report_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestLooks takes pictures of pages for people to look at, into the folder that
// WINDTUNNEL_LOOKS names: of invented runs, or of the run directory that
// WINDTUNNEL_RUN names, judged as its verdict.json says.
func TestLooks(t *testing.T) {
	dir := os.Getenv("WINDTUNNEL_LOOKS")
	if dir == "" {
		t.Skip("set WINDTUNNEL_LOOKS to a folder to get pictures of reports")
	}
	ctx := browser(t)
	if run := os.Getenv("WINDTUNNEL_RUN"); run != "" {
		pictures(ctx, t, filepath.Join(dir, filepath.Base(run)), html(t, load(t, run)))
		return
	}
	for name, c := range shapes() {
		c.Shape.Gave, c.Shape.Faults = !c.Pass, !c.Pass
		r := build(t, c.Shape, c.Pass)
		pictures(ctx, t, filepath.Join(dir, name), html(t, r))
		repotest.NoError(t, os.WriteFile(filepath.Join(dir, name+".txt"), []byte(summary(t, r, 80)), 0o600))
	}
	livePictures(ctx, t, filepath.Join(dir, "live"))
	pictures(ctx, t, filepath.Join(dir, "site"), siteOf(t))
	pictures(ctx, t, filepath.Join(dir, "comparison"), written(t, compared(t, 2, 5, reporttest.Shape{})))
	pictures(ctx, t, filepath.Join(dir, "three"), written(t, compared(t, 3, 4, reporttest.Shape{})))
}

func load(t *testing.T, path string) *content.Report {
	t.Helper()
	d, m, err := record.OpenDir(path)
	repotest.NoError(t, err)
	raw := repotest.Must(os.ReadFile(d.File(record.VerdictFile)))(t)
	var j slo.Judgement
	repotest.NoError(t, json.Unmarshal(raw, &j))
	r := content.Build(reporttest.Read(t, d, m), j, reporttest.Found(t, d))
	return r
}

// pictures writes a page with pictures of it at two widths, light and dark, of
// what is seen first, and on paper; names begin with prefix.
func pictures(ctx context.Context, t *testing.T, prefix, page string) {
	t.Helper()
	write := func(suffix string, content []byte) {
		repotest.NoError(t, os.WriteFile(prefix+suffix, content, 0o600))
	}
	write(".html", []byte(page))
	for suffix, c := range map[string]struct {
		width int64
		dark  bool
	}{"-wide": {1280, false}, "-wide-dark": {1280, true}, "-narrow": {480, false}, "-narrow-dark": {480, true}} {
		do(ctx, t, dark(c.dark), chromedp.EmulateViewport(c.width, 900), chromedp.Navigate("file://"+prefix+".html"), chromedp.Sleep(300*time.Millisecond))
		shot, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		repotest.NoError(t, err)
		write(suffix+".png", shot)
		if shot, err = chromedp.Run(ctx, chromedp.CaptureScreenshot()); err != nil {
			t.Fatal(err)
		}
		write(suffix+"-first.png", shot)
	}
	do(ctx, t, dark(true)) // paper is light whatever the screen is
	sheet := repotest.Must(chromedp.Run(ctx, chromedp.PrintToPDF(chromedp.PDFPaper(chromedp.PaperA4), chromedp.PDFPrintBackground())))(t)
	write(".pdf", sheet)
}

// livePictures takes pictures of the list of runs and of a run under way.
func livePictures(ctx context.Context, t *testing.T, prefix string) {
	t.Helper()
	p := page(t, reporttest.Shape{Pods: 800, CutOff: true}, true)
	server := httptest.NewServer(newStage(t, p, p, p).mux)
	defer func() { server.CloseClientConnections(); server.Close() }()
	for _, width := range []int64{1600, 1200, 400} {
		for name, place := range map[string]string{"list": "", "run": "run/density%2Fnow"} {
			do(ctx, t, dark(false), chromedp.EmulateViewport(width, 900), chromedp.Navigate("about:blank"), chromedp.Navigate(server.URL+"/#/"+place), chromedp.Sleep(500*time.Millisecond))
			shot := repotest.Must(chromedp.Run(ctx, chromedp.CaptureScreenshot()))(t)
			repotest.NoError(t, os.WriteFile(fmt.Sprintf("%s-%s-%d.png", prefix, name, width), shot, 0o600))
		}
	}
	do(ctx, t, chromedp.Navigate("about:blank"))
}
