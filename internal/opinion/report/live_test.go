package report_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/reporttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// stage serves the live page by the contract in web/src/live.ts, with a run
// that goes on when the test says so.
type stage struct {
	mux      *http.ServeMux
	mu       sync.Mutex
	ended    bool
	now      report.Page
	changed  chan struct{} // closed when now or ended has changed
	stopped  []string      // headers X-Windtunnel of stops
	compared string
}

func newStage(t *testing.T, first, other, both report.Page) *stage {
	s := &stage{mux: http.NewServeMux(), now: first, changed: make(chan struct{})}
	send := func(w http.ResponseWriter, v any) {
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	s.mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := report.Shell(w); err != nil {
			t.Error(err)
		}
	})
	s.mux.HandleFunc("GET /api/runs", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		run := func(id, state string) map[string]any {
			return map[string]any{"id": id, "scenario": "density", "started": "2026-09-14T10:22:05Z", "state": state, "sentence": "A sentence.", "seconds": 78.3}
		}
		state := "running"
		if s.ended {
			state = "fail"
		}
		now := run("density/now", state)
		now["varied"] = "podsPerNode=1, rate=100.0"
		now["sentence"] = "3 of 54 objectives are missed; the worst: mean of pods running per second (group saturation) is 61.2/s instead of at least 90/s. Other processes used 59 % of the CPU."
		send(w, map[string]any{"runs": []any{now, run("density/one", "pass"), run("density/two", "fail")}})
	})
	s.mux.HandleFunc("GET /api/runs/{id}/page", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("id") {
		case "density/now":
			s.mu.Lock()
			defer s.mu.Unlock()
			send(w, s.now)
		case "density/one":
			send(w, other)
		default:
			w.WriteHeader(http.StatusNotFound)
			send(w, map[string]string{"error": "there is no such run"})
		}
	})
	s.mux.HandleFunc("GET /api/runs/{id}/events", s.events)
	s.mux.HandleFunc("POST /api/runs/{id}/stop", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.stopped = append(s.stopped, r.PathValue("id")+" "+r.Header.Get("X-Windtunnel"))
		w.WriteHeader(http.StatusAccepted)
	})
	s.mux.HandleFunc("GET /api/compare", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.compared = fmt.Sprint(r.URL.Query()["a"], r.URL.Query()["b"])
		send(w, both)
	})
	return s
}

func (s *stage) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for {
		s.mu.Lock()
		page, ended, changed := s.now, s.ended, s.changed
		s.mu.Unlock()
		raw, err := json.Marshal(page)
		if err != nil {
			return
		}
		fmt.Fprintf(w, "event: page\ndata: %s\n\n", raw)
		if ended {
			fmt.Fprint(w, "event: end\ndata: {}\n\n")
			return
		}
		w.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-r.Context().Done():
			return
		}
	}
}

// show lets the run go on.
func (s *stage) show(p report.Page, ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.ended = p, ended
	close(s.changed)
	s.changed = make(chan struct{})
}

func page(t *testing.T, s reporttest.Shape, live bool) report.Page {
	t.Helper()
	r := build(t, s, false)
	if live {
		r.UnderWay()
	}
	return repotest.Must(report.NewPage(r))(t)
}

// until waits for an expression to be true in the page.
func until(ctx context.Context, t *testing.T, expression string) {
	t.Helper()
	repotest.Eventually(t, expression, func() bool { return value[bool](ctx, t, expression) })
}

func TestLivePage(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes some seconds to start")
	}
	ctx := browser(t)
	first := page(t, reporttest.Shape{Pods: 400, CutOff: true}, true)
	first.Data.Heat.Maps = first.Data.Heat.Maps[1:2] // the first of the list is not there yet
	s := newStage(t, first, page(t, reporttest.Shape{Pods: 200}, false),
		compared(t, 2, 2, reporttest.Shape{Pods: 100}))
	server := httptest.NewServer(s.mux)
	// The browser goes first, which ends its stream of events.
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	w := &witness{server: server.URL}
	repotest.NoError(t, chromedp.Listen(ctx, w.see))
	do(ctx, t, dark(false), chromedp.EmulateViewport(1280, 900), chromedp.Navigate(server.URL+"/"))
	for _, part := range []struct {
		name  string
		check func(context.Context, *testing.T, *stage)
	}{{"list", checkList}, {"grow", checkGrow}, {"follow", checkFollow}, {"pause", checkPause}, {"stop", checkStop}, {"end", checkEnd}, {"compare", checkTwo}} {
		if !t.Run(part.name, func(t *testing.T) {
			part.check(ctx, t, s)
			w.check(t, part.name)
		}) {
			return
		}
	}
	t.Run("refused", func(t *testing.T) { checkRefused(ctx, t) })
}

func checkList(ctx context.Context, t *testing.T, _ *stage) {
	until(ctx, t, `document.querySelectorAll(".runs tbody tr").length === 3`)
	checkListWidths(ctx, t)
	do(ctx, t, chromedp.Click(chromedp.CSS(".runs tbody tr:nth-child(2) a")))
	until(ctx, t, `document.querySelectorAll(".plot canvas").length > 5`)
	do(ctx, t, chromedp.Click(chromedp.CSS("#nav a")))
	until(ctx, t, `document.querySelectorAll(".runs tbody tr").length === 3`)
	do(ctx, t, chromedp.Click(chromedp.CSS(".runs tbody tr:first-child a")))
	until(ctx, t, `document.querySelectorAll(".plot canvas").length > 5`)
	if s := value[string](ctx, t, `document.querySelector(".badge").textContent`); !strings.Contains(s, "Under way") {
		t.Errorf("a run under way has the verdict %q", s)
	}
}

// checkListWidths holds that the list shows every column, with room for what was run and
// for the sentence, and that the program's name stays on one line.
func checkListWidths(ctx context.Context, t *testing.T) {
	defer do(ctx, t, chromedp.EmulateViewport(1280, 900))
	for _, width := range []int64{1600, 1200, 1000, 400} {
		do(ctx, t, chromedp.EmulateViewport(width, 900))
		until(ctx, t, fmt.Sprintf(`innerWidth === %d && (e => e.scrollWidth <= e.clientWidth)(document.querySelector("#runs .wide"))`, width))
		for _, cell := range []string{"tbody th", "tbody td:last-child"} {
			if got := value[float64](ctx, t, `document.querySelector(".runs `+cell+`").getBoundingClientRect().width`); got < 200 {
				t.Errorf("a window of %d pixels leaves %v to %s", width, got, cell)
			}
		}
		checkBrand(ctx, t)
	}
}

// checkBrand holds that the program's name is not broken.
func checkBrand(ctx context.Context, t *testing.T) {
	t.Helper()
	if high := value[float64](ctx, t, `document.querySelector(".brand").getBoundingClientRect().height`); high > 30 {
		t.Errorf("the program's name is %v pixels high: it is broken", high)
	}
}

const (
	podsPeak = `document.querySelector("#chart-pods .key b").textContent`
	marked   = `document.querySelector("#chart-pods .plot canvas").dataset.marked`
)

// lastShown is the moment, in seconds, that a chart shows at its right edge.
func lastShown(ctx context.Context, t *testing.T, chart string) float64 {
	t.Helper()
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.getElementById("`+chart+`").scrollIntoView()`))
	edge := value[[]float64](ctx, t, `(r => [r.right - 3, r.top + r.height / 2])(document.querySelector("#`+chart+` .u-over").getBoundingClientRect())`)
	do(ctx, t, chromedp.MouseEvent("mouseMoved", edge[0]-20, edge[1]), chromedp.MouseEvent("mouseMoved", edge[0], edge[1]))
	text := value[string](ctx, t, `document.querySelector("#`+chart+` .readout").textContent`)
	at := regexp.MustCompile(`at (\d+):([\d.]+)`).FindStringSubmatch(text)
	if at == nil {
		t.Fatalf("%s says %q at its right edge", chart, text)
	}
	minutes := repotest.Must(strconv.ParseFloat(at[1], 64))(t)
	seconds := repotest.Must(strconv.ParseFloat(at[2], 64))(t)
	return 60*minutes + seconds
}

// checkGrow has the run go on while the reader sees all of it: every chart goes on
// with it, and the first choice of latencies, all calls, is shown as soon as it is there.
func checkGrow(ctx context.Context, t *testing.T, s *stage) {
	before := value[string](ctx, t, podsPeak)
	grown := page(t, reporttest.Shape{Pods: 800, CutOff: true}, true)
	s.show(grown, false)
	until(ctx, t, podsPeak+` !== "`+before+`"`)
	for _, chart := range value[[]string](ctx, t, `[...document.querySelectorAll("figure.time")].map(e => e.id)`) {
		if at, end := lastShown(ctx, t, chart), float64(grown.Data.To); at < 0.9*end || at > end {
			t.Errorf("%s ends at %v s of a run that is %v s old", chart, at, end)
		}
	}
	if s := value[string](ctx, t, `document.querySelector("#chart-heat select").selectedOptions[0].textContent`); !strings.HasPrefix(s, grown.Data.Heat.Maps[0].Name) {
		t.Errorf("the latencies shown are those of %q, and the first choice is %q", s, grown.Data.Heat.Maps[0].Name)
	}
}

// checkFollow has the run go on while the reader has zoomed in, put a line
// away, sorted a table, unfolded a part and focused another.
func checkFollow(ctx context.Context, t *testing.T, s *stage) {
	before := value[string](ctx, t, podsPeak)
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-pods .plot canvas").dataset.marked = "same"`),
		chromedp.Click(chromedp.CSS(`.step[title^="saturation"]`)),
		chromedp.Click(chromedp.CSS(`#chart-pods .key:nth-child(2)`)),
		chromedp.Click(chromedp.CSS(`#calls thead th:nth-child(6) button`)),
		chromedp.Evaluate[chromedp.Void](`document.querySelector("#manifest details").open = true`),
		chromedp.Focus(chromedp.CSS("#objectives summary")))
	shown := value[string](ctx, t, shownRange)
	s.show(page(t, reporttest.Shape{Pods: 1600, CutOff: true}, true), false)
	until(ctx, t, podsPeak+` !== "`+before+`"`)
	for expression, want := range map[string]string{
		shownRange: shown, marked: "same",
		`document.querySelector("#chart-pods .key:nth-child(2)").getAttribute("aria-pressed")`:   "false",
		`document.querySelector("#calls thead th:nth-child(6)").getAttribute("aria-sort") ?? ""`: "descending",
		`String(document.querySelector("#manifest details").open)`:                               "true",
		`document.activeElement.tagName + document.activeElement.closest("section")?.id`:         "SUMMARYobjectives",
	} {
		if got := value[string](ctx, t, expression); got != want {
			t.Errorf("after the run went on, %s is %q, want %q", expression, got, want)
		}
	}
	do(ctx, t, chromedp.Click(chromedp.CSS(".all")))
}

func checkPause(ctx context.Context, t *testing.T, s *stage) {
	// However much a run has to say of where it stands.
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector(".status").textContent = "3:05 · step 4 of 9: a-step-with-a-long-name · waits for: 2,950 of 3,000 pods of group saturation · p99 1.2 s · 3 failed · 1:20 left"`))
	for _, width := range []int64{1200, 800, 400} {
		do(ctx, t, chromedp.EmulateViewport(width, 900))
		checkBrand(ctx, t)
		// Charts follow the window when the browser next draws.
		until(ctx, t, fmt.Sprintf("innerWidth === %d && document.documentElement.scrollWidth <= innerWidth", width))
	}
	do(ctx, t, chromedp.EmulateViewport(1280, 900))
	before := value[string](ctx, t, podsPeak)
	do(ctx, t, chromedp.Click(chromedp.CSS(`#nav button[aria-pressed]`)))
	s.show(page(t, reporttest.Shape{Pods: 2400, CutOff: true}, true), false)
	time.Sleep(300 * time.Millisecond)
	if got := value[string](ctx, t, podsPeak); got != before {
		t.Errorf("a page that was paused went on from %q to %q", before, got)
	}
	do(ctx, t, chromedp.Click(chromedp.CSS(`#nav button[aria-pressed]`)))
	until(ctx, t, podsPeak+` !== "`+before+`"`)
}

func checkStop(ctx context.Context, t *testing.T, s *stage) {
	do(ctx, t, chromedp.Click(chromedp.CSS("#nav .stop")))
	if s.mu.Lock(); len(s.stopped) > 0 {
		t.Error("the run was stopped without asking twice")
	}
	s.mu.Unlock()
	do(ctx, t, chromedp.Click(chromedp.CSS("#nav .stop")))
	until(ctx, t, `document.querySelector("#nav .stop").disabled`)
	repotest.Eventually(t, "the server is told to stop", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.stopped) > 0
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.stopped, ", "); got != "density/now 1" {
		t.Errorf("the server was told to stop %q", got)
	}
}

func checkEnd(ctx context.Context, t *testing.T, s *stage) {
	s.show(page(t, reporttest.Shape{Pods: 2400}, false), true)
	until(ctx, t, `document.querySelector(".badge").textContent.includes("Fail") && !document.querySelector("#nav .stop")`)
	if title := value[string](ctx, t, `document.title`); !strings.HasPrefix(title, "Fail") {
		t.Errorf("title %q", title)
	}
}

func checkTwo(ctx context.Context, t *testing.T, s *stage) {
	do(ctx, t, chromedp.Click(chromedp.CSS("#nav a")))
	until(ctx, t, `document.querySelectorAll(".runs tbody tr").length === 3`)
	do(ctx, t, chromedp.Click(chromedp.CSS(`[data-id="density/one"]`)), chromedp.Click(chromedp.CSS(`[data-id="density/two"]`)), chromedp.Click(chromedp.CSS(".headline button")))
	until(ctx, t, `document.querySelectorAll(".plot canvas").length > 15`)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.compared != "[density/one] [density/two]" {
		t.Errorf("compared %s", s.compared)
	}
}

// checkRefused asks for what is not there: the page says so in words. The
// browser's own log has the status, so that nothing is checked there.
func checkRefused(ctx context.Context, t *testing.T) {
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`location.hash = "#/run/nowhere"`))
	until(ctx, t, `document.querySelector("[role=alert]")?.textContent === "there is no such run"`)
}
