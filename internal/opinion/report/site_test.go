package report_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/windtunnel/windtunnel/internal/opinion/site"
	"github.com/windtunnel/windtunnel/internal/opinion/site/sitetest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// siteOf makes the page of two scenarios with 60 runs each and of a published bundle.
func siteOf(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	sitetest.Write(t, folder, sitetest.Shape{From: filepath.Join("..", "judge", "testdata", "format1", "density"), Scenarios: 2, Runs: 60})
	bundle := repotest.Must(os.ReadFile("../../../experiments/0026-published-bundle/density.wtb"))(t)
	repotest.NoError(t, os.WriteFile(filepath.Join(folder, "density.wtb"), bundle, 0o600))
	var page bytes.Buffer
	if _, err := site.Write(t.Context(), &page, site.Options{Sources: []string{folder}, Folder: folder}); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// checkSite opens the page of many runs: its trends, and two runs side by side, in both
// themes and in a narrow window.
func checkSite(ctx context.Context, t *testing.T, w *witness) {
	do(ctx, t, dark(false), chromedp.EmulateViewport(1280, 900))
	openText(ctx, t, siteOf(t))
	w.check(t, "site")
	if n := value[int](ctx, t, `document.querySelectorAll(".trend .line").length`); n != 12 {
		t.Errorf("%d trends are drawn, want 12", n)
	}
	if s := value[string](ctx, t, `document.querySelector(".trend h3").textContent + document.querySelectorAll(".trend .change.worse").length`); s != "p99 pod startup (saturation) lower is better1" {
		t.Errorf("the first trend is %q", s)
	}
	do(ctx, t, chromedp.Click(chromedp.CSS(`#site-runs [aria-label$="density-00/00059"][name=b]`)), chromedp.Click(chromedp.CSS(`#site-runs tr:nth-child(20) [name=a]`)))
	until(ctx, t, `document.querySelectorAll("#pair tbody tr").length > 50`)
	if s := value[string](ctx, t, `document.querySelector("#pair pre").textContent`); !strings.HasSuffix(s, "/density-00/00059") || !strings.Contains(s, "/density-00/00040 -- ") {
		t.Errorf("the command is %q", s)
	}
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`(p => { p.selectedIndex = [...p.options].findIndex(o => o.text === "density-01"); p.dispatchEvent(new Event("change")) })(document.querySelector(".picker select"))`))
	do(ctx, t, chromedp.Click(chromedp.CSS(`#site-runs tbody tr:first-child [name=b]`)))
	if s := value[string](ctx, t, `document.querySelector("#pair").textContent`); !strings.Contains(s, "A is a run of density-00 and B is a run of density-01: they cannot be compared.") {
		t.Errorf("runs of two scenarios: %q", s)
	}
	do(ctx, t, dark(true), chromedp.EmulateViewport(480, 900))
	until(ctx, t, `innerWidth === 480 && document.documentElement.scrollWidth <= 480`)
	do(ctx, t, dark(false), chromedp.EmulateViewport(1280, 900))
	w.check(t, "site")
}
