package report_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/report/content"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/scenario"
)

// browser starts a headless Chromium that asks nobody for anything.
func browser(t *testing.T) context.Context {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" && os.Getenv("CI") == "true" {
		t.Fatal("no Chromium found: in CI the report must be opened in a browser")
	}
	if path == "" {
		t.Skip("no Chromium found: the report is not opened in a browser")
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.UserDataDir(t.TempDir()),
		chromedp.Env("TMPDIR=" + t.TempDir()), // it leaves a folder there
	}
	// No step has a time of its own: a busy machine decides how long it takes. One that hangs ends
	// while the test can still say which one it was.
	ctx, cancel := context.Background(), context.CancelFunc(func() {})
	if deadline, ok := t.Deadline(); ok {
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-30*time.Second))
	}
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits, so that its folder can be removed
		cancel()
	})
	repotest.NoError(t, chromedp.Do(ctx))
	return ctx
}

func dark(on bool) chromedp.Action[chromedp.Void] {
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	})
}

// witness notes what a page should not do.
type witness struct {
	server string // that it may ask; empty: none
	mu     sync.Mutex
	faults []string
}

func (w *witness) see(ev any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		w.faults = append(w.faults, fmt.Sprintf("exception: %s", e.ExceptionDetails.Text))
	case *runtime.EventConsoleAPICalled:
		w.faults = append(w.faults, fmt.Sprintf("console: %s", e.Type))
	case *log.EventEntryAdded:
		if !strings.Contains(e.Entry.Text, "getImageData") { // that is this test's own looking
			w.faults = append(w.faults, fmt.Sprintf("log: %s", e.Entry.Text))
		}
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, "data:") && !strings.HasSuffix(url, ".html") && (w.server == "" || !strings.HasPrefix(url, w.server)) {
			w.faults = append(w.faults, "request: "+url)
		}
	}
}

// check reports and forgets what was seen.
func (w *witness) check(t *testing.T, page string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.faults {
		t.Errorf("%s: %s", page, f)
	}
	w.faults = nil
}

// open writes a report and opens it as from a disk.
func open(ctx context.Context, t *testing.T, r *content.Report) {
	t.Helper()
	openText(ctx, t, html(t, r))
}

func openText(ctx context.Context, t *testing.T, page string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "report.html")
	repotest.NoError(t, os.WriteFile(path, []byte(page), 0o600))
	do(ctx, t, chromedp.Navigate("file://"+path))
}

// value evaluates an expression in the page.
func value[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func do(ctx context.Context, t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	repotest.NoError(t, chromedp.Do(ctx, steps...))
}

// painted counts the canvases of charts that have something drawn on them.
const painted = `[...document.querySelectorAll(".plot canvas")].filter(c => {
	const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
	return d.some((v, i) => i % 4 === 3 && v > 0);
}).length`

func TestPageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes some seconds to start")
	}
	ctx := browser(t)
	w := &witness{}
	repotest.NoError(t, chromedp.Listen(ctx, w.see))
	do(ctx, t, dark(false), chromedp.EmulateViewport(1280, 900))
	open(ctx, t, build(t, reporttest.Shape{Faults: true, Gave: true}, false))
	for _, part := range []struct {
		name  string
		check func(context.Context, *testing.T)
	}{
		{"first screen", checkFirstScreen}, {"widths", checkWidths}, {"charts", checkCharts}, {"faults", checkFaults}, {"theme", checkTheme}, {"zoom", checkZoom}, {"keys", checkKeys},
		{"sort", checkSort}, {"heat", checkHeat}, {"print", checkPrint}, {"paper", checkPaper},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.check(ctx, t)
			w.check(t, part.name)
		})
	}
	t.Run("other runs", func(t *testing.T) { checkOthers(ctx, t, w) })
	t.Run("comparison", func(t *testing.T) { checkComparison(ctx, t, w) })
	t.Run("site", func(t *testing.T) { checkSite(ctx, t, w) })
	t.Run("stack", func(t *testing.T) {
		checkStack(ctx, t)
		w.check(t, "stack")
	})
}

// stacked is the report of a run whose scenario asks for a stack of three processes' memory.
func stacked(t *testing.T) *content.Report {
	t.Helper()
	d, m, err := reporttest.Write(t.TempDir(), reporttest.Shape{Pods: 300})
	repotest.NoError(t, err)
	r := reporttest.Read(t, d, m)
	r.Scenario.Charts = []scenario.Chart{{Name: "memory", Query: `process_resident_memory_bytes{job=~"etcd|kube-apiserver|kube-scheduler"}`, Unit: "bytes", Stacked: true}}
	return content.Build(r, slo.Judgement{Verdict: slo.Unknown}, nil)
}

// checkStack holds that areas lie on top of each other in the legend's order, in both
// themes, and that one which is put away lets those above it down.
func checkStack(ctx context.Context, t *testing.T) {
	// areas are those of a column of pixels, from the top, by the colours of the keys.
	const areas = `(() => {
		const keys = [...document.querySelectorAll("#chart-asked-1 .key")].map(e => [e.querySelector("span").textContent, e.querySelector("canvas").getContext("2d").getImageData(0, 0, 1, 1).data.join()]);
		const c = document.querySelector("#chart-asked-1 .plot canvas"), d = c.getContext("2d").getImageData(c.width / 2, 0, 1, c.height).data;
		const out = [];
		for (let i = 0; i < d.length; i += 4) {
			const found = keys.find(k => k[1] === d.slice(i, i + 4).join());
			if (!found) continue;
			if (found[0] === out.at(-1)?.Name) out.at(-1).Rows++;
			else out.push({Name: found[0], Rows: 1});
		}
		return out;
	})()`
	type area struct {
		Name string
		Rows int
	}
	for _, night := range []bool{false, true} {
		do(ctx, t, dark(night), chromedp.EmulateViewport(1280, 900))
		open(ctx, t, stacked(t))
		legend := value[string](ctx, t, `[...document.querySelectorAll("#chart-asked-1 .key span")].map(e => e.textContent).join(" ")`)
		got := value[[]area](ctx, t, areas)
		if legend != "etcd kube-apiserver kube-scheduler" || len(got) != 3 || got[0].Name != "etcd" || got[1].Name != "kube-apiserver" || got[2].Name != "kube-scheduler" {
			t.Fatalf("dark %v: from the top the stack has the areas %v, the legend %s", night, got, legend)
		}
	}
	do(ctx, t, dark(false))
	say := func(key string) string {
		do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-asked-1 .plot").dispatchEvent(new KeyboardEvent("keydown", {key: "`+key+`", bubbles: true}))`))
		return value[string](ctx, t, `document.getElementById("hover").textContent`)
	}
	say("PageDown") // to where all have a value
	if s := say("PageDown"); !regexp.MustCompile(`etcd .+, kube-apiserver .+, kube-scheduler .+, together .+iB$`).MatchString(s) {
		t.Errorf("a screen reader hears %q", s)
	}
	if s := value[string](ctx, t, `document.querySelector("#chart-asked-1 .readout").textContent`); !strings.Contains(s, ", together ") {
		t.Errorf("beside the legend stands %q", s)
	}
	before := value[[]area](ctx, t, areas)
	do(ctx, t, chromedp.Click(chromedp.CSS(`#chart-asked-1 .key:nth-child(2)`)))
	after := value[[]area](ctx, t, areas)
	if len(after) != 2 || after[0].Name != "etcd" || after[1].Name != "kube-scheduler" {
		t.Fatalf("with kube-apiserver put away the stack has the areas %v", after)
	}
	was, is := float64(before[0].Rows)/float64(before[2].Rows), float64(after[0].Rows)/float64(after[1].Rows)
	if is > 2*was {
		t.Errorf("with kube-apiserver put away etcd is %.1f times kube-scheduler and was %.1f times: it did not come down", is, was)
	}
}

// checkWidths holds that windows of common widths show the objectives to their last column.
func checkWidths(ctx context.Context, t *testing.T) {
	defer do(ctx, t, chromedp.EmulateViewport(1280, 900))
	for _, width := range []int64{1920, 1280, 1200, 1100, 1024, 900, 480} {
		do(ctx, t, chromedp.EmulateViewport(width, 900))
		until(ctx, t, fmt.Sprintf(`innerWidth === %d && (e => e.scrollWidth <= e.clientWidth)(document.querySelector("#objectives .wide"))`, width))
	}
}

// checkComparison opens a page of three arms.
func checkComparison(ctx context.Context, t *testing.T, w *witness) {
	do(ctx, t, chromedp.EmulateViewport(1280, 900))
	openText(ctx, t, written(t, compared(t, 3, 4, reporttest.Shape{Pods: 300, Faults: true})))
	if n := value[int](ctx, t, painted); n < 20 {
		t.Errorf("%d charts are painted, want 20 and more", n)
	}
	if s := value[[]string](ctx, t, `[...document.querySelectorAll("#chart-cpu-kube-scheduler .key span")].map(e => e.textContent)`); strings.Join(s, " ") != "A B C" {
		t.Errorf("the lines of a chart are %q", s)
	}
	if n := value[int](ctx, t, `new Set([...document.querySelectorAll(".ridge")].map(e => e.getAttribute("class"))).size`); n != 3 {
		t.Errorf("distributions have %d colours, want one for each arm", n)
	}
	w.check(t, "comparison")
}

func checkCharts(ctx context.Context, t *testing.T) {
	if n := value[int](ctx, t, painted); n != 10 {
		t.Errorf("%d charts over time are painted, want 10", n)
	}
	if n := value[int](ctx, t, `document.querySelectorAll(".ridge .area").length`); n != 8 {
		t.Errorf("%d distributions are drawn, want 8", n)
	}
	if s := value[string](ctx, t, `document.querySelector("#chart-pods .legend").textContent`); s != "existpeak 3,150bound to a nodepeak 3,150runningpeak 3,150" {
		t.Errorf("legend of pods: %s", s)
	}
	// Between the pointer's moment and the figures stands the whole way from the records.
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-pods").scrollIntoView()`))
	x := value[float64](ctx, t, `(r => r.left + r.width / 2)(document.querySelector("#chart-pods .u-over").getBoundingClientRect())`)
	y := value[float64](ctx, t, `(r => r.top + r.height / 2)(document.querySelector("#chart-pods .u-over").getBoundingClientRect())`)
	do(ctx, t, chromedp.MouseEvent("mouseMoved", x, y))
	if s := value[string](ctx, t, `document.querySelector("#chart-pods .legend b").textContent`); !strings.HasPrefix(s, "3,0") {
		t.Errorf("in the middle of the run %q pods exist, want 3,0xx", s)
	}
	if s := value[string](ctx, t, `document.querySelector("#chart-memory .readout").textContent`); !strings.HasPrefix(s, "at 0:4") && !strings.HasPrefix(s, "at 0:39") {
		t.Errorf("the chart of memory follows the pointer to %q", s)
	}
}

// checkFirstScreen looks whether what a reader asks first is there without
// scrolling: the verdict, the worst objectives, what gave way, and trust.
func checkFirstScreen(ctx context.Context, t *testing.T) {
	for _, what := range []string{"h1", "#objectives tbody tr:first-child", "#gave-way li:first-child", "#trust h2"} {
		if bottom := value[float64](ctx, t, `document.querySelector("`+what+`").getBoundingClientRect().bottom`); bottom > 900 {
			t.Errorf("%s ends at %v pixels of a window of 900", what, bottom)
		}
	}
	if s := value[string](ctx, t, `document.querySelector("h1").textContent`); !strings.HasPrefix(s, "3 of 54 objectives are missed") {
		t.Errorf("the verdict is %q", s)
	}
}

// checkFaults looks for the faults in the strip and across a chart.
func checkFaults(ctx context.Context, t *testing.T) {
	if s := value[[]string](ctx, t, `[...document.querySelectorAll(".mark.fault")].map(m => m.getAttribute("aria-label"))`); len(s) != 2 || s[0] != "kube-scheduler: kill" {
		t.Errorf("faults in the strip: %q", s)
	}
	// Where the fault stands, the chart has a column of its colour.
	const columns = `(() => {
		const c = document.querySelector("#chart-memory .plot canvas"), x = c.getContext("2d"), d = x.getImageData(0, 0, c.width, c.height).data;
		const probe = document.createElement("canvas").getContext("2d");
		probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--fault").trim();
		probe.fillRect(0, 0, 1, 1);
		const [r, g, b] = probe.getImageData(0, 0, 1, 1).data;
		let n = 0;
		for (let i = 0; i < c.width; i++) {
			let hits = 0;
			for (let j = 0; j < c.height; j++) { const k = 4 * (j * c.width + i); if (d[k] === r && d[k + 1] === g && d[k + 2] === b) hits++; }
			if (hits > c.height / 2) n++;
		}
		return n;
	})()`
	if n := value[int](ctx, t, columns); n < 2 {
		t.Errorf("%d columns of the chart of memory have the colour of faults, want 2", n)
	}
}

func checkTheme(ctx context.Context, t *testing.T) {
	const ground = `getComputedStyle(document.body).backgroundColor`
	const ink = `(c => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.join())(document.querySelector("#chart-cpu .plot canvas"))`
	light, drawn := value[string](ctx, t, ground), value[string](ctx, t, ink)
	do(ctx, t, chromedp.Click(chromedp.CSS("#theme")), chromedp.Sleep(100*time.Millisecond))
	if value[string](ctx, t, ground) == light || value[string](ctx, t, ink) == drawn {
		t.Error("page or chart kept its colours when the theme was switched")
	}
	do(ctx, t, chromedp.Click(chromedp.CSS("#theme")), chromedp.Sleep(100*time.Millisecond))
	if value[string](ctx, t, ground) != light {
		t.Error("the light theme did not come back")
	}
}

const shownRange = `document.querySelector(".timeline .range").textContent`

func checkZoom(ctx context.Context, t *testing.T) {
	do(ctx, t, chromedp.Click(chromedp.CSS(`.step[title^="latency"]`)))
	if s := value[string](ctx, t, shownRange); !strings.HasPrefix(s, "0:3") {
		t.Errorf("a step's name shows %q", s)
	}
	do(ctx, t, chromedp.Click(chromedp.CSS(".all")))
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-load").scrollIntoView()`))
	box := value[[]float64](ctx, t, `(r => [r.left, r.top + r.height / 2, r.width])(document.querySelector("#chart-load .u-over").getBoundingClientRect())`)
	do(ctx, t, chromedp.DragAndDropXY(box[0]+box[2]*0.25, box[1], box[0]+box[2]*0.5, box[1]))
	s := value[string](ctx, t, shownRange)
	if !strings.HasPrefix(s, "0:2") && !strings.HasPrefix(s, "0:19") {
		t.Errorf("dragging over the second quarter shows %q", s)
	}
	do(ctx, t, chromedp.Click(chromedp.CSS(".all")))
	if value[bool](ctx, t, `!document.querySelector(".all").hidden`) {
		t.Error("the whole run is not shown again")
	}
}

func checkKeys(ctx context.Context, t *testing.T) {
	do(ctx, t, chromedp.Focus(chromedp.CSS("#chart-memory .plot")), chromedp.KeyEvent("\ue010")) // not a key of ours: nothing happens
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-memory .plot").dispatchEvent(new KeyboardEvent("keydown", {key: "End", bubbles: true}))`))
	if s := value[string](ctx, t, `document.getElementById("hover").textContent`); !strings.Contains(s, "kube-apiserver ") || !strings.Contains(s, "MiB") {
		t.Errorf("a screen reader hears %q", s)
	}
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-memory .plot").dispatchEvent(new KeyboardEvent("keydown", {key: "+", bubbles: true}))`))
	if !value[bool](ctx, t, `!document.querySelector(".all").hidden`) {
		t.Error("plus does not zoom")
	}
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-memory .plot").dispatchEvent(new KeyboardEvent("keydown", {key: "0", bubbles: true}))`))
}

func checkSort(ctx context.Context, t *testing.T) {
	const order = `[...document.querySelectorAll("#calls tbody")].map(b => [...b.rows].slice(1).map(r => Number(r.cells[5].dataset.v)))`
	for _, sign := range []float64{-1, 1} {
		do(ctx, t, chromedp.Click(chromedp.CSS(`#calls thead th:nth-child(6) button`)))
		for _, group := range value[[][]float64](ctx, t, order) {
			for i := 1; i < len(group); i++ {
				if sign*(group[i]-group[i-1]) < 0 {
					t.Errorf("sorted by p99: %v", group)
				}
			}
		}
	}
}

func checkHeat(ctx context.Context, t *testing.T) {
	const peaks = `document.querySelector("#chart-heat .legend").textContent`
	before := value[string](ctx, t, peaks)
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`(s => { s.value = [...s.options].findIndex(o => o.text.startsWith("patch pods/status")); s.dispatchEvent(new Event("change")); })(document.querySelector("#chart-heat select"))`))
	if value[string](ctx, t, peaks) == before {
		t.Error("another kind of call shows the same latencies")
	}
}

func checkPrint(ctx context.Context, t *testing.T) {
	const folded = `document.querySelectorAll("details:not([open])").length`
	before := value[int](ctx, t, folded)
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("beforeprint"))`))
	if n := value[int](ctx, t, folded); n != 0 || before == 0 {
		t.Errorf("%d of %d folded parts stay folded on paper", n, before)
	}
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("afterprint"))`))
	if n := value[int](ctx, t, folded); n != before {
		t.Errorf("%d parts are folded after printing, %d were", n, before)
	}
}

// checkPaper looks at the page as a printer gets it from a dark screen.
func checkPaper(ctx context.Context, t *testing.T) {
	media := func(name, scheme string) chromedp.Action[chromedp.Void] {
		return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Media: name, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		})
	}
	do(ctx, t, media("print", "dark"), chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("beforeprint"))`))
	for expression, want := range map[string]string{
		`getComputedStyle(document.body).backgroundColor`:                                         "rgb(255, 255, 255)",
		`getComputedStyle(document.querySelector("#theme")).display`:                              "none",
		`getComputedStyle(document.querySelector(".timeline")).position`:                          "static",
		`getComputedStyle(document.querySelector(".front")).display`:                              "block",
		`getComputedStyle(document.querySelector("figure.time")).breakInside`:                     "avoid",
		`String(document.querySelector("#chart-cpu .plot canvas").getBoundingClientRect().width)`: "690",
	} {
		if got := value[string](ctx, t, expression); got != want {
			t.Errorf("on paper %s is %q, want %q", expression, got, want)
		}
	}
	if luma := value[float64](ctx, t, `(([r, g, b]) => (r + g + b) / 3)(getComputedStyle(document.body).color.match(/\d+/g).map(Number))`); luma > 80 {
		t.Errorf("ink is as light as %v of 255 on paper", luma)
	}
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`dispatchEvent(new Event("afterprint"))`), media("", "light"))
}

// stepsAtTheEnd is a run whose last steps took no time, side by side.
func stepsAtTheEnd(t *testing.T) record.Dir {
	t.Helper()
	dir := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), "run")))(t)
	w := repotest.Must(record.Create(dir.File(record.StreamFile)))(t)
	event := func(seconds int, what record.EventType, name string) {
		w.Event(record.Event{At: clock.Time(seconds) * clock.Time(time.Second), Type: what, Name: name})
	}
	event(1, record.EventRunBegan, "x")
	event(1, record.EventStepBegan, "fill")
	event(60, record.EventStepEnded, "fill")
	names := []string{"wait-until-all-of-the-first-group-are-ready", "wait-until-all-of-the-second-group-are-ready"}
	for _, name := range names {
		event(60, record.EventStepBegan, name)
	}
	for _, name := range names {
		event(60, record.EventStepEnded, name)
	}
	w.Event(record.Event{At: 60 * clock.Time(time.Second), Type: record.EventRunEnded, Detail: record.Detail{Reason: record.Done}})
	repotest.NoError(t, w.Close())
	return dir
}

// checkOthers opens runs that are not as a run should be.
func checkOthers(ctx context.Context, t *testing.T, w *witness) {
	empty := repotest.Must(record.CreateDir(filepath.Join(t.TempDir(), "run")))(t)
	stream := repotest.Must(record.Create(empty.File(record.StreamFile)))(t)
	repotest.NoError(t, stream.Close())
	nothing := content.Build(reporttest.Read(t, empty, record.Manifest{}), slo.Judgement{Verdict: slo.Unknown}, reporttest.Found(t, empty))
	beside := content.Build(reporttest.Read(t, stepsAtTheEnd(t), record.Manifest{}), slo.Judgement{Verdict: slo.Unknown}, nil)
	const taint = `</script><img src=x onerror="console.log(1)"><svg onload=console.log(2)>`
	for name, r := range map[string]*content.Report{
		"empty": nothing, "steps at the end": beside, "torn": build(t, reporttest.Shape{Pods: 300, CutOff: true}, false),
		"hostile": build(t, reporttest.Shape{Pods: 300, Taint: taint}, false),
	} {
		for _, width := range []int64{1280, 480} {
			do(ctx, t, chromedp.EmulateViewport(width, 900))
			open(ctx, t, r)
			if value[string](ctx, t, `document.documentElement.dataset.charts ?? ""`) == "" {
				t.Errorf("%s: the page's script did not come to its end", name)
			}
			if over := value[int](ctx, t, `document.documentElement.scrollWidth - innerWidth`); over > 0 {
				wide := value[[]string](ctx, t, `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth && !e.closest(".wide")).map(e => e.tagName + "." + e.className)`)
				t.Errorf("%s: the page is %d pixels wider than a window of %d because of %v", name, over, width, wide)
			}
			w.check(t, name)
		}
	}
}
