package query_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/opinion/report/live/query"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

var epoch = time.Date(2026, 5, 1, 12, 0, 0, 250_000_000, time.UTC)

// flown is the database of a small run: etcd and kube-apiserver are scraped
// every 5 s for a minute.
func flown(t testing.TB, o promql.Options) *promql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	w.Family(record.Family{Name: "calls_total", Type: "counter", Help: `Calls by "code".`})
	w.Family(record.Family{Name: "lat", Type: "histogram", Help: "Latency."})
	w.Family(record.Family{Name: "odd"})
	ok := w.Define(record.Series{Target: "kube-apiserver", Name: "calls_total", Labels: []record.Label{{Name: "code", Value: "200"}}})
	failed := w.Define(record.Series{Target: "kube-apiserver", Name: "calls_total", Labels: []record.Label{{Name: "code", Value: "500"}}})
	lat := w.Define(record.Series{Target: "kube-apiserver", Name: "lat"})
	odd := w.Define(record.Series{Target: "etcd", Name: "odd", Labels: []record.Label{{Name: "text", Value: "a \"b\"\n<c>"}}})
	for i := range 13 {
		at := clock.Time(i) * clock.Time(5*time.Second)
		s := record.Scrape{Target: "kube-apiserver", At: at, Took: 2 * time.Millisecond, Points: 3,
			Values:     []record.Value{{Series: ok, Value: float64(10 * i)}, {Series: failed, Value: float64(i) * 1e-9}},
			Histograms: []record.HistogramValue{{Series: lat, Value: &record.Histogram{Schema: 3, Count: uint64(1 + i), Sum: float64(i), ZeroCount: 1, Positive: []record.Bucket{{Index: 8, Count: uint64(i)}}}}}}
		w.Scrape(&s)
		e := record.Scrape{Target: "etcd", At: at, Took: time.Millisecond, Points: 1}
		if i == 0 {
			e.Values = []record.Value{{Series: odd, Value: math.Inf(1)}}
		}
		w.Scrape(&e)
	}
	repotest.NoError(t, w.Close())
	store := repotest.Must(series.Read(path))(t)
	return repotest.Must(promql.Open(store, o))(t)
}

// TestGolden asks what testdata/api.txt has and compares the answers: a line
// METHOD PATH, below it the status and the body. What follows a ? is sent as a
// form where the method is POST.
func TestGolden(t *testing.T) {
	const file = "testdata/api.txt"
	handler := query.New(flown(t, promql.Default(epoch)), query.Options{MaxPoints: 100})
	raw := repotest.Must(os.ReadFile(file))(t)
	var out strings.Builder
	for line := range strings.Lines(string(raw)) {
		if method, path, ok := strings.Cut(strings.TrimSpace(line), " "); ok && (method == "GET" || method == "POST") {
			status, body := ask(handler, method, path)
			fmt.Fprintf(&out, "%s%d\n%s\n", line, status, strings.TrimSpace(body))
			if !json.Valid([]byte(body)) {
				t.Errorf("%s: not JSON: %s", line, body)
			}
		} else if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			out.WriteString(line)
		}
	}
	repotest.Golden(t, file, out.String())
}

// ask sends a request as api.txt has them: nothing in it is escaped.
func ask(h http.Handler, method, line string) (int, string) {
	path, query, _ := strings.Cut(line, "?")
	form := url.Values{}
	for pair := range strings.SplitSeq(query, "&") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			form.Add(name, value)
		}
	}
	r := httptest.NewRequest(method, path+"?"+form.Encode(), nil)
	if method == http.MethodPost {
		r = httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestLimits(t *testing.T) {
	o := promql.Default(epoch)
	o.MaxSamples = 5
	if status, body := ask(query.New(flown(t, o), query.Options{}), http.MethodGet, "/api/v1/query?query=count_over_time(calls_total[1m])"); status != http.StatusUnprocessableEntity || !strings.Contains(body, `"execution"`) {
		t.Errorf("too many samples: %d %s", status, body)
	}
	h := query.New(flown(t, promql.Default(epoch)), query.Options{})
	if status, body := ask(h, http.MethodGet, "/api/v1/query?query=up&timeout=1ms"); status != http.StatusOK && status != http.StatusServiceUnavailable {
		t.Errorf("a short time: %d %s", status, body)
	}
	o = promql.Default(epoch)
	o.Timeout = time.Nanosecond
	if status, body := ask(query.New(flown(t, o), query.Options{}), http.MethodGet, "/api/v1/query?query=up"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"timeout"`) {
		t.Errorf("no time: %d %s", status, body)
	}
	r := httptest.NewRequest(http.MethodPost, "/api/v1/query", strings.NewReader("query="+strings.Repeat("x", 2<<20)))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusBadRequest {
		t.Errorf("a form of 2 MB: %d", w.Code)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?query=up", nil).WithContext(ctx))
	if w.Code != 499 {
		t.Errorf("canceled: %d %s", w.Code, w.Body)
	}
	if status, _ := ask(h, http.MethodDelete, "/api/v1/query"); status != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", status)
	}
	if status, _ := ask(h, http.MethodGet, "/api/v1/nosuch"); status != http.StatusNotFound {
		t.Errorf("nosuch: %d", status)
	}
}

// The engine's version is that of the module that go.mod names.
func TestEngineVersion(t *testing.T) {
	raw := repotest.Must(os.ReadFile("../../../../../go.mod"))(t)
	minor, patch, _ := strings.Cut(strings.TrimPrefix(promql.EngineVersion, "3."), ".")
	if want := fmt.Sprintf("github.com/prometheus/prometheus v0.3%02s.%s\n", minor, patch); !strings.Contains(string(raw), want) {
		t.Errorf("go.mod does not have %q", want)
	}
}

// Whatever is asked for, the answer is JSON and not a crash.
func FuzzQuery(f *testing.F) {
	h := query.New(flown(f, promql.Default(epoch)), query.Options{MaxPoints: 50})
	f.Add("query", "query", "up", "time", "1777636810")
	f.Add("query_range", "query", "rate(calls_total[30s])", "step", "5s")
	f.Add("series", "match[]", "{job=\"etcd\"}", "limit", "1")
	f.Add("label/job/values", "end", "2026-05-01T12:00:30Z", "start", "0")
	f.Fuzz(func(t *testing.T, what, a, b, c, d string) {
		target := "/api/v1/" + url.PathEscape(what) + "?" + url.Values{a: {b}, c: {d}, "start": {"1777636800"}, "end": {"1777636830"}}.Encode()
		if strings.Count(what, "/") == 2 {
			target = strings.ReplaceAll(target, "%2F", "/")
		}
		r, err := http.NewRequest(http.MethodGet, target, nil)
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s: %s", target, w.Body)
		}
	})
}

// Point any client of the Prometheus API at a run.
func Example() {
	store := series.NewStore()
	db, err := promql.Open(store, promql.Default(epoch))
	if err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(query.New(db, query.Options{}))
	defer server.Close()
	resp, err := http.Get(server.URL + "/api/v1/query?query=6*7&time=0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output:
	// {"status":"success","data":{"resultType":"scalar","result":[0,"42"]}}
	//  <nil>
}
