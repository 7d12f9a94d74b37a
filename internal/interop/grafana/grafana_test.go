package grafana_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/windtunnel/windtunnel/internal/interop/grafana"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// kept opens the series of a run of examples/density.yaml that was kept: a real
// plane's, without what no panel asks for.
func kept(t *testing.T) *promql.DB {
	t.Helper()
	dir, manifest, err := record.OpenDir("testdata/run")
	repotest.NoError(t, err)
	store := repotest.Must(series.Read(dir.File(record.StreamFile)))(t)
	return repotest.Must(promql.Open(store, promql.Default(manifest.Started)))(t)
}

// Every query of the dashboard is asked over a real run, and answered by values
// unless it asks for trouble that the run did not have.
func TestEveryQueryIsAnswered(t *testing.T) {
	db := kept(t)
	first, last, _ := db.Span()
	trouble := []string{"cgroup_cpu_throttled", "steal", "inqueue_requests", "workqueue_depth", "workqueue_retries", `code=~"[45].."`}
	queries := 0
	for _, p := range grafana.New(grafana.Options{}).Panels {
		for _, target := range p.Targets {
			queries++
			expr := inGrafana(target.Expr)
			if err := promql.Check(expr); err != nil {
				t.Errorf("%s: %v", p.Title, err)
				continue
			}
			answer, err := db.Range(context.Background(), expr, first, last, time.Second)
			if err != nil {
				t.Errorf("%s: %s: %v", p.Title, expr, err)
				continue
			}
			points := 0
			for _, s := range answer.Series {
				points += len(s.Points)
				checkLegend(t, target.Legend, s)
			}
			if points == 0 && !containsAny(target.Expr, trouble) {
				t.Errorf("%s: %s: no value", p.Title, expr)
			}
			if len(answer.Warnings) > 0 {
				t.Errorf("%s: %s: %v", p.Title, expr, answer.Warnings)
			}
		}
	}
	if queries < 25 {
		t.Errorf("only %d queries", queries)
	}
}

// inGrafana puts in what Grafana puts in for its variables.
func inGrafana(expr string) string {
	return strings.NewReplacer("$__rate_interval", "20s", "$job", ".*").Replace(expr)
}

// checkLegend fails when a legend names a label that the answer has not.
func checkLegend(t *testing.T, legend string, s promql.Series) {
	t.Helper()
	for _, name := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(legend, -1) {
		found := false
		for _, l := range s.Labels {
			found = found || l.Name == name[1]
		}
		if !found {
			t.Errorf("legend %q: %v has no label %s", legend, s.Labels, name[1])
		}
	}
}

func containsAny(s string, parts []string) bool {
	for _, p := range parts {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// The variable of components lists them all.
func TestComponentsCanBeChosen(t *testing.T) {
	db := kept(t)
	_, last, _ := db.Span()
	jobs, err := db.LabelValues("job", promql.Selector{Match: []string{"process_cpu_seconds_total"}, To: last})
	if err != nil || len(jobs) < 5 {
		t.Errorf("jobs %v, %v", jobs, err)
	}
}

// The layout is one that Grafana takes: numbers once, places that do not overlap,
// within 24 columns, each query with its own letter.
func TestLayout(t *testing.T) {
	d := grafana.New(grafana.Options{})
	type place struct{ x, y int }
	ids, taken := map[int]bool{}, map[place]string{}
	for _, p := range d.Panels {
		if p.ID == 0 || ids[p.ID] {
			t.Errorf("%s: id %d twice, or none", p.Title, p.ID)
		}
		ids[p.ID] = true
		g := p.GridPos
		if g.X < 0 || g.W < 1 || g.H < 1 || g.X+g.W > 24 {
			t.Errorf("%s: lies at %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[place{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[place{x, y}] = p.Title
			}
		}
		letters := map[string]bool{}
		for _, target := range p.Targets {
			if target.RefID == "" || letters[target.RefID] || target.Source.UID != "${datasource}" {
				t.Errorf("%s: target %+v", p.Title, target)
			}
			letters[target.RefID] = true
		}
		if p.Type == "timeseries" && (len(p.Targets) == 0 || p.FieldConfig == nil || p.Options == nil || p.Datasource == nil) {
			t.Errorf("%s: not a whole chart", p.Title)
		}
	}
}

func TestTime(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	d := grafana.New(grafana.Options{Scenario: "density", Started: at, Length: 90 * time.Second})
	if d.Time != (grafana.Span{From: "2026-05-01T12:00:00.000Z", To: "2026-05-01T12:01:30.000Z"}) || d.Refresh != "" || d.Title != "windtunnel: density" {
		t.Errorf("time %+v, refresh %q, title %q", d.Time, d.Refresh, d.Title)
	}
	if grafana.New(grafana.Options{}).Time.To != "now" {
		t.Error("without a run the dashboard follows the clock")
	}
}

// What is provisioned names each other rightly.
func TestProvision(t *testing.T) {
	folder := t.TempDir()
	d := grafana.New(grafana.Options{})
	files, err := grafana.Provision(folder, "http://127.0.0.1:9090", d)
	if err != nil || len(files) != 3 {
		t.Fatalf("%v, %v", files, err)
	}
	var sources struct {
		Datasources []struct{ UID, Type, URL string }
	}
	decode(t, filepath.Join(folder, "datasources/windtunnel.yaml"), &sources)
	if len(sources.Datasources) != 1 || sources.Datasources[0].Type != "prometheus" || sources.Datasources[0].URL != "http://127.0.0.1:9090" {
		t.Errorf("data sources: %+v", sources)
	}
	var providers struct {
		Providers []struct {
			Type    string
			Options struct{ Path string }
		}
	}
	decode(t, filepath.Join(folder, "dashboards/windtunnel.yaml"), &providers)
	got := repotest.Must(os.ReadFile(filepath.Join(providers.Providers[0].Options.Path, "windtunnel.json")))(t)
	want, err := d.JSON()
	if err != nil || !bytes.Equal(got, want) || !json.Valid(got) {
		t.Errorf("the provider's folder has another dashboard, or none: %v", err)
	}
}

func decode(t *testing.T, path string, into any) {
	t.Helper()
	raw := repotest.Must(os.ReadFile(path))(t)
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
