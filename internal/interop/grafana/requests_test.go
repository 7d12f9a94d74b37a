package grafana_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"

	"github.com/windtunnel/windtunnel/internal/interop/grafana"
	"github.com/windtunnel/windtunnel/internal/opinion/report/live/query"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestRequests sends what Grafana's data source for Prometheus sends when it is
// tested, when the dashboard is opened and when its variable is filled, to the
// API that the verb serve answers by.
func TestRequests(t *testing.T) {
	db := kept(t)
	server := httptest.NewServer(query.New(db, query.Options{}))
	defer server.Close()
	first, last, _ := db.Span()
	wall := func(at int64) string { return strconv.FormatInt(at/1000, 10) }
	from, to := wall(db.Wall(first).UnixMilli()), wall(db.Wall(last).UnixMilli())

	ask(t, server.URL+"/api/v1/query", url.Values{"query": {"1+1"}, "time": {to}}) // "Save & test"
	ask(t, server.URL+"/api/v1/status/buildinfo", nil)
	ask(t, server.URL+"/api/v1/metadata", nil)
	jobs := ask(t, server.URL+"/api/v1/label/job/values", url.Values{"match[]": {"process_cpu_seconds_total"}, "start": {from}, "end": {to}})
	if names, ok := jobs.([]any); !ok || len(names) < 5 {
		t.Errorf("jobs: %v", jobs)
	}
	for _, p := range grafana.New(grafana.Options{}).Panels {
		for _, target := range p.Targets {
			data := ask(t, server.URL+"/api/v1/query_range", url.Values{"query": {inGrafana(target.Expr)}, "start": {from}, "end": {to}, "step": {"5"}})
			if m, ok := data.(map[string]any); !ok || m["resultType"] != "matrix" {
				t.Errorf("%s: %v", p.Title, data)
			}
		}
	}
}

// ask returns the data of an answer that says success.
func ask(t *testing.T, address string, form url.Values) any {
	t.Helper()
	answer := repotest.Must(http.Get(address + "?" + form.Encode()))(t)
	defer answer.Body.Close()
	raw := repotest.Must(io.ReadAll(answer.Body))(t)
	var body struct {
		Status string
		Data   any
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Status != "success" || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s?%s: %s %s", address, form.Encode(), answer.Status, raw)
	}
	return body.Data
}
