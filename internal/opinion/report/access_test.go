package report_test

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// axe returns the script of axe-core, in the version that web/ pins; it is
// installed for the test alone.
func axe(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil && os.Getenv("CI") == "true" {
		t.Fatal("no npm found: in CI pages must be checked for accessibility")
	}
	if err != nil {
		t.Skip("no npm found: pages are not checked for accessibility")
	}
	dir := t.TempDir()
	copySource(t, "../../../web", dir)
	run(t, dir, npm, "ci", "--no-audit", "--no-fund")
	script := repotest.Must(os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js")))(t)
	return string(script)
}

// faults runs axe in the page and lists what it calls serious or critical.
const faults = `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations
	.filter(v => v.impact === "serious" || v.impact === "critical")
	.map(v => v.id + ": " + v.nodes.slice(0, 4).map(n => n.html.slice(0, 120) + " " + n.failureSummary).join(" | ")))`

func TestPagesAreAccessible(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes some seconds to start")
	}
	script := axe(t)
	ctx := browser(t)
	for name, page := range map[string]string{
		"run":        html(t, build(t, reporttest.Shape{Gave: true, Faults: true, Slow: 3}, false)),
		"torn":       html(t, build(t, reporttest.Shape{Pods: 300, CutOff: true}, false)),
		"comparison": written(t, compared(t, 2, 4, reporttest.Shape{Pods: 300, Faults: true})),
	} {
		for _, c := range []struct {
			dark  bool
			width int64
		}{{false, 1280}, {true, 1280}, {false, 480}} {
			do(ctx, t, dark(c.dark), chromedp.EmulateViewport(c.width, 900))
			openText(ctx, t, page)
			// What is folded away is somebody's page, too.
			do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("details").forEach(d => d.open = true)`))
			checkAccess(ctx, t, name, script)
		}
	}
	p := page(t, reporttest.Shape{Pods: 300, CutOff: true}, true)
	server := httptest.NewServer(newStage(t, p, p, p).mux)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	do(ctx, t, dark(false), chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL+"/"))
	until(ctx, t, `document.querySelectorAll(".runs tbody tr").length === 3`)
	checkAccess(ctx, t, "list", script)
	do(ctx, t, chromedp.Click(chromedp.CSS(".runs tbody tr:first-child a")))
	until(ctx, t, `document.querySelectorAll(".plot canvas").length > 5`)
	checkAccess(ctx, t, "under way", script)
	do(ctx, t, chromedp.Navigate("about:blank"))
}

func checkAccess(ctx context.Context, t *testing.T, name, script string) {
	t.Helper()
	do(ctx, t, chromedp.Evaluate[chromedp.Void](script+";0"), chromedp.Sleep(100*time.Millisecond))
	found := repotest.Must(chromedp.Run(ctx, chromedp.Evaluate[[]string](faults, chromedp.EvalAwaitPromise)))(t)
	if len(found) > 0 {
		t.Errorf("%s: axe finds\n%s", name, strings.Join(found, "\n"))
	}
}
