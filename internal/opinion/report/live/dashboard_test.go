package live_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/opinion/report"
	"github.com/windtunnel/windtunnel/internal/opinion/report/live"
	"github.com/windtunnel/windtunnel/internal/opinion/slo"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// aRun makes a run directory that began so many minutes ago.
func aRun(t *testing.T, path string, minutes int, verdict slo.Verdict) string {
	t.Helper()
	dir := repotest.Must(record.CreateDir(path))(t)
	m := record.Manifest{Format: record.Format, Scenario: "density", Started: time.Now().Add(-time.Duration(minutes) * time.Minute)}
	repotest.NoError(t, dir.WriteJSON(record.ManifestFile, m))
	w := repotest.Must(record.Create(dir.File(record.StreamFile)))(t)
	repotest.NoError(t, w.Close())
	if verdict != "" {
		repotest.NoError(t, dir.WriteJSON(record.VerdictFile, slo.Judgement{Scenario: "density", Verdict: verdict, Reasons: []string{"It was cold. Very."},
			Measures: map[string]slo.Measure{"run_seconds": {Value: 87, Unit: "seconds"}}}))
	}
	return path
}

// fixture serves a folder with runs.
type fixture struct {
	*httptest.Server
	root   string
	builds atomic.Int32
	closed atomic.Int32
	fails  atomic.Bool
}

func (f *fixture) build(dir string) (report.Page, error) {
	if f.fails.Load() {
		return report.Page{}, errors.New("no such thing")
	}
	n := f.builds.Add(1)
	return report.Page{Kind: "run", Name: filepath.Base(dir), Title: strings.Repeat("x", int(n))}, nil
}

// source is a run under way.
type source struct {
	f   *fixture
	dir string
}

func (s *source) Page() (report.Page, error) { return s.f.build(s.dir) }
func (s *source) Close() error               { s.f.closed.Add(1); return nil }

func serve(t *testing.T, token string) *fixture {
	t.Helper()
	f := &fixture{root: t.TempDir()}
	s := live.New(live.Options{
		Roots: []string{f.root}, Token: token, Clock: clock.Start(),
		Build: f.build,
		Watch: func(dir string) (live.Source, error) { return &source{f, dir}, nil },
		Compare: func(a, b []string) (report.Page, error) {
			if len(a) == 2 {
				return report.Page{}, errors.New("they are of different scenarios")
			}
			return report.Page{Kind: "comparison", Name: filepath.Base(a[0]) + " " + filepath.Base(b[0])}, nil
		},
		Query: func(dir string) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, filepath.Base(dir)+" "+r.URL.Path) }), nil
		},
	})
	f.Server = httptest.NewServer(s)
	t.Cleanup(f.Server.Close)
	t.Cleanup(s.Close)
	return f
}

// ask sends a request and returns the answer's code and body.
func (f *fixture) ask(t *testing.T, method, path string, change func(*http.Request)) (int, string) {
	t.Helper()
	r := repotest.Must(http.NewRequest(method, f.URL+path, nil))(t)
	if change != nil {
		change(r)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	a := repotest.Must(client.Do(r))(t)
	defer a.Body.Close()
	body := repotest.Must(io.ReadAll(a.Body))(t)
	return a.StatusCode, string(body)
}

func TestRunsAreListed(t *testing.T) {
	f := serve(t, "")
	if code, body := f.ask(t, "GET", "/api/runs", nil); code != 200 || body != `{"runs":[]}` {
		t.Errorf("none: %d %s", code, body)
	}
	aRun(t, filepath.Join(f.root, "density", "old"), 60, slo.Pass)
	aRun(t, filepath.Join(f.root, "density", "new"), 5, slo.Unknown)
	aRun(t, filepath.Join(f.root, "density", "killed"), 10, "")
	aRun(t, filepath.Join(f.root, "a", "b", "c", "d", "e", "too-deep"), 10, slo.Pass)
	outside := aRun(t, filepath.Join(t.TempDir(), "outside"), 1, slo.Pass)
	repotest.NoError(t, os.Symlink(outside, filepath.Join(f.root, "latest")))
	flown := aRun(t, filepath.Join(f.root, "flown"), 1, "")
	self := repotest.Must(process.Self())(t)
	repotest.NoError(t, record.Dir(flown).WriteJSON(record.OwnerFile, self))
	repotest.NoError(t, record.Dir(flown).WriteJSON(record.StatusFile, record.Status{Step: "fill", Elapsed: 42}))
	_, body := f.ask(t, "GET", "/api/runs", nil)
	var list struct{ Runs []live.Run }
	repotest.NoError(t, json.Unmarshal([]byte(body), &list))
	var got []string
	for _, r := range list.Runs {
		got = append(got, fmt.Sprintf("%s %s %v", r.ID, r.State, r.Seconds)) // their files are some milliseconds old
	}
	if want := "flown running 42, density~new unknown 87, density~killed unknown 0, density~old pass 87"; strings.Join(got, ", ") != want {
		t.Errorf("got %q, want %q", strings.Join(got, ", "), want)
	}
	if s := list.Runs[1].Sentence; s != "No verdict: It was cold." {
		t.Errorf("sentence %q", s)
	}
	if s := list.Runs[2].Sentence; !strings.Contains(s, "windtunnel judge") {
		t.Errorf("sentence %q", s)
	}
}

// Runs of one scenario are told apart by what was varied.
func TestTheListSaysWhatWasVaried(t *testing.T) {
	f := serve(t, "")
	for name, set := range map[string]map[string]any{
		"a": {"rate": 50, "nodes": 20, "cores": 0.5}, "b": {"rate": 50, "nodes": 40, "cores": 2}, "c": {"rate": 50, "cores": 2},
	} {
		dir := aRun(t, filepath.Join(f.root, "density", name), 60, slo.Pass)
		d, m, err := record.OpenDir(dir)
		repotest.NoError(t, err)
		m.Parameters = set
		repotest.NoError(t, d.WriteJSON(record.ManifestFile, m))
	}
	_, body := f.ask(t, "GET", "/api/runs", nil)
	var list struct{ Runs []live.Run }
	repotest.NoError(t, json.Unmarshal([]byte(body), &list))
	got := map[string]string{}
	for _, r := range list.Runs {
		got[r.ID] = r.Varied
	}
	want := map[string]string{"density~a": "cores=0.5 nodes=20", "density~b": "cores=2 nodes=40", "density~c": "cores=2"}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestOnlyWhatWasFoundIsServed(t *testing.T) {
	f := serve(t, "")
	aRun(t, filepath.Join(f.root, "density", "one"), 1, slo.Pass)
	for path, want := range map[string]int{
		"/api/runs/density~one/page":                             200,
		"/api/runs/two/page":                                     404,
		"/api/runs/..%2F..%2Fetc/page":                           404,
		"/api/runs/density%2Fone/page":                           404,
		"/api/compare?a=density~one&b=../../etc":                 404,
		"/api/compare?a=density~one":                             400,
		"/api/compare?a=density~one&b=density~one":               200,
		"/api/compare?a=density~one&a=density~one&b=density~one": 422,
		"/somewhere": 404,
	} {
		if code, body := f.ask(t, "GET", path, nil); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	aRun(t, filepath.Join(f.root, "density", "three"), 1, slo.Pass)
	f.fails.Store(true)
	if code, body := f.ask(t, "GET", "/api/runs/density~one/page", nil); code != 200 || f.builds.Load() != 1 {
		t.Errorf("a page that is there: %d %s, made %d times", code, body, f.builds.Load())
	}
	if code, body := f.ask(t, "GET", "/api/runs/density~three/page", nil); code != 422 || body != `{"error":"no such thing"}` {
		t.Errorf("%d %s", code, body)
	}
}

func TestThePageItselfLoadsNothing(t *testing.T) {
	f := serve(t, "")
	code, body := f.ask(t, "GET", "/", nil)
	if code != 200 || !strings.Contains(body, "connect-src &#39;self&#39;") || strings.Contains(body, `src="http`) {
		t.Errorf("%d %.200s", code, body)
	}
}

func TestQueries(t *testing.T) {
	f := serve(t, "")
	aRun(t, filepath.Join(f.root, "density", "old"), 60, slo.Pass)
	aRun(t, filepath.Join(f.root, "density", "new"), 5, slo.Pass)
	for path, want := range map[string]string{
		"/api/v1/query?query=up":                         "new /api/v1/query",
		"/prometheus/density~old/api/v1/labels":          "old /api/v1/labels",
		"/prometheus/density~new/api/v1/label/le/values": "new /api/v1/label/le/values",
	} {
		if code, body := f.ask(t, "GET", path, nil); code != 200 || body != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	if code, _ := f.ask(t, "GET", "/prometheus/none/api/v1/labels", nil); code != 404 {
		t.Errorf("of no run: %d", code)
	}
}

func TestARunIsFollowedToItsEnd(t *testing.T) {
	f := serve(t, "")
	dir := record.Dir(aRun(t, filepath.Join(f.root, "one"), 1, ""))
	self := repotest.Must(process.Self())(t)
	repotest.NoError(t, dir.WriteJSON(record.OwnerFile, self))
	repotest.NoError(t, dir.WriteJSON(record.StatusFile, record.Status{Step: "fill", Index: 2, Of: 3}))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", f.URL+"/api/runs/one/events", nil)
	a := repotest.Must(http.DefaultClient.Do(r))(t)
	defer a.Body.Close()
	lines := bufio.NewScanner(a.Body)
	var events []string
	for lines.Scan() {
		name, ok := strings.CutPrefix(lines.Text(), "event: ")
		if !ok {
			continue
		}
		if events = append(events, name); len(events) == 3 {
			repotest.NoError(t, os.Remove(dir.File(record.OwnerFile)))
		}
	}
	if got := strings.Join(events, " "); got != "page status page page end" {
		t.Errorf("events %q", got)
	}
	if n, closed := f.builds.Load(), f.closed.Load(); n != 3 || closed != 1 {
		t.Errorf("%d pages were made, and the run was let go %d times", n, closed)
	}
}

func TestWhoMayAsk(t *testing.T) {
	f := serve(t, "")
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	for name, want := range map[string]int{"localhost:9090": 200, "127.0.0.1": 200, "[::1]:80": 200, "evil.example:9090": 403, "10.0.0.1": 403} {
		if code, _ := f.ask(t, "GET", "/api/runs", host(name)); code != want {
			t.Errorf("host %s: %d", name, code)
		}
	}
	f = serve(t, "secret")
	with := func(key, value string) func(*http.Request) { return func(r *http.Request) { r.Header.Set(key, value) } }
	for _, c := range []struct {
		path   string
		change func(*http.Request)
		want   int
	}{
		{"/api/runs", nil, 401},
		{"/", nil, 401},
		{"/?token=wrong", nil, 401},
		{"/?token=secret", nil, 303},
		{"/api/runs?token=secret", nil, 401}, // not where addresses are kept in logs
		{"/api/runs", with("Authorization", "Bearer secret"), 200},
		{"/api/runs", with("Authorization", "Bearer secre"), 401},
		{"/api/runs", with("Cookie", "windtunnel=secret"), 200},
		{"/api/runs", with("Cookie", "windtunnel=other"), 401},
	} {
		if code, body := f.ask(t, "GET", c.path, c.change); code != c.want {
			t.Errorf("%s: %d %s, want %d", c.path, code, body, c.want)
		}
	}
}

// Whatever a browser is made to send on behalf of another page is refused before it
// costs anything.
func TestOtherPagesMayAskForNothing(t *testing.T) {
	f := serve(t, "")
	aRun(t, filepath.Join(f.root, "one"), 1, slo.Pass)
	for _, path := range []string{"/api/runs", "/api/runs/one/page", "/api/compare?a=one&b=one", "/api/v1/query?query=up", "/prometheus/one/api/v1/labels"} {
		for name, value := range map[string]string{"Origin": "http://evil.example", "Sec-Fetch-Site": "cross-site"} {
			for _, method := range []string{"GET", "POST"} {
				if code, _ := f.ask(t, method, path, func(r *http.Request) { r.Header.Set(name, value) }); code != 403 {
					t.Errorf("%s %s with %s %s: %d", method, path, name, value, code)
				}
			}
		}
		if code, body := f.ask(t, "GET", path, func(r *http.Request) {
			r.Header.Set("Origin", f.URL)
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}); code != 200 {
			t.Errorf("%s of our page: %d %s", path, code, body)
		}
	}
	if code, _ := f.ask(t, "GET", "/", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); code != 200 {
		t.Errorf("a link to the page: %d", code)
	}
}

// Followers are so many at most, and one more is told.
func TestFollowersAreBounded(t *testing.T) {
	f := serve(t, "")
	dir := record.Dir(aRun(t, filepath.Join(f.root, "one"), 1, ""))
	self := repotest.Must(process.Self())(t)
	repotest.NoError(t, dir.WriteJSON(record.OwnerFile, self))
	follow := func() (int, func()) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "GET", f.URL+"/api/runs/one/events", nil)
		a, err := f.Client().Do(r)
		if err != nil {
			cancel()
			t.Fatal(err)
		}
		return a.StatusCode, func() { cancel(); a.Body.Close() }
	}
	var ends []func()
	for range 100 {
		code, end := follow()
		if ends = append(ends, end); code != 200 {
			t.Fatal(code)
		}
	}
	if code, end := follow(); code != 503 {
		t.Errorf("one too many: %d", code)
		end()
	}
	ends[0]()
	repotest.Eventually(t, "a place is free again", func() bool {
		code, end := follow()
		end()
		return code == 200
	})
	for _, end := range ends[1:] {
		end()
	}
}

func TestARunIsStoppedByOurPageOnly(t *testing.T) {
	f := serve(t, "")
	dir := record.Dir(aRun(t, filepath.Join(f.root, "one"), 1, ""))
	// A directory that somebody sent may name any process: it must write the records.
	bystander, sleep := exec.Command("sleep", "60"), exec.Command("sleep", "60")
	records, err := os.Open(dir.File(record.StreamFile))
	repotest.NoError(t, err)
	defer records.Close()
	sleep.ExtraFiles = []*os.File{records}
	for _, c := range []*exec.Cmd{bystander, sleep} {
		if err := c.Start(); err != nil {
			t.Skip(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
	ours := func(r *http.Request) { r.Header.Set("X-Windtunnel", "1") }
	if code, _ := f.ask(t, "POST", "/api/runs/one/stop", ours); code != 409 {
		t.Errorf("of a run that nobody flies: %d", code)
	}
	who := repotest.Must(process.Of(bystander.Process.Pid))(t)
	repotest.NoError(t, dir.WriteJSON(record.OwnerFile, who))
	if code, _ := f.ask(t, "POST", "/api/runs/one/stop", ours); code != 409 || !who.Alive() {
		t.Errorf("of a run that names a bystander: %d", code)
	}
	if who, err = process.Of(sleep.Process.Pid); err != nil {
		t.Fatal(err)
	}
	repotest.NoError(t, dir.WriteJSON(record.OwnerFile, who))
	for what, change := range map[string]func(*http.Request){
		"without the header": nil,
		"of another page":    func(r *http.Request) { ours(r); r.Header.Set("Origin", "http://evil.example") },
	} {
		if code, _ := f.ask(t, "POST", "/api/runs/one/stop", change); code != 403 {
			t.Errorf("%s: %d", what, code)
		}
	}
	if code, _ := f.ask(t, "GET", "/api/runs/one/stop", ours); code != 405 {
		t.Errorf("by GET: %d", code)
	}
	if !who.Alive() {
		t.Fatal("it was stopped nevertheless")
	}
	if code, body := f.ask(t, "POST", "/api/runs/one/stop", func(r *http.Request) { ours(r); r.Header.Set("Origin", f.URL) }); code != 202 {
		t.Errorf("%d %s", code, body)
	}
	_ = sleep.Wait()
	if code, _ := f.ask(t, "POST", "/api/runs/one/stop", ours); code != 409 {
		t.Errorf("of a run that has ended: %d", code)
	}
}
