package kubeburner

import (
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// observed is a run of 100 s in which the metric lag was scraped every 5 s. It
// is 1, but from 40 s to 50 s it is 9.
func observed(t *testing.T) *promql.DB {
	t.Helper()
	store := series.NewStore()
	names := []record.Series{{Target: "kube-apiserver", Name: "lag"}}
	for s := range 21 {
		value := 1.0
		if s >= 8 && s <= 10 {
			value = 9
		}
		at := clock.Time(s) * clock.Time(5*time.Second)
		store.Add(names, record.Sample{Series: 0, At: at, Value: value})
		store.Event(record.Event{At: at, Type: record.EventScraped, Name: "kube-apiserver"})
	}
	return repotest.Must(promql.Open(store, promql.Default(time.Date(2026, 9, 14, 10, 0, 0, 0, time.UTC))))(t)
}

// TestAlerts: an alert that fired at any moment has a value above 0, one that
// never did has 0, and a comparison of what was never measured has none.
func TestAlerts(t *testing.T) {
	db := observed(t)
	for _, tt := range []struct {
		expr string
		want string // fires, silent or unknown
	}{
		{"lag > 5", "fires"},
		{"lag > 10", "silent"},
		{"avg_over_time(lag[{{.elapsed}}:]) > 2", "fires"}, // 42/18 in the end: half of the time it is less
		{"avg_over_time(lag[{{.elapsed}}:]) > 8", "silent"},
		{"nothing > 5", "unknown"},
		{"(lag > 5) and on (job) lag", "fires"},
		{"lag > 10 or nothing", "silent"},
		{"absent(nothing)", "fires"},
		{"absent(lag)", "silent"},
	} {
		p := profiles{target: &target{source: &source{}}}
		text, ok := p.queryOf(&decoder{findings: &findings{}}, "", tt.expr)
		if !ok {
			t.Fatal(tt.expr)
		}
		answer, err := db.Instant(t.Context(), strings.ReplaceAll(firingQuery(text, usualStep), "%v", "90s"), clock.Time(95*time.Second))
		if err != nil {
			t.Errorf("%s: %v", firingQuery(text, usualStep), err)
			continue
		}
		got := "unknown"
		for _, s := range answer.Series {
			switch value := s.Points[0].Value; {
			case value > 0:
				got = "fires"
			case got == "unknown":
				got = "silent"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s (%v), want %s", firingQuery(text, usualStep), got, answer.Series, tt.want)
		}
	}
}

// TestQueries: all that the profiles become can be asked.
func TestQueries(t *testing.T) {
	s, _, err := Import("testdata/density.yml", surroundings())
	repotest.NoError(t, err)
	var queries []string
	for _, o := range s.Objectives {
		queries = append(queries, o.Query)
	}
	for _, m := range s.Measures {
		queries = append(queries, m.Query)
	}
	asked := 0
	for _, q := range queries {
		if q == "" {
			continue
		}
		asked++
		if err := promql.Check(strings.ReplaceAll(q, "%v", "90s")); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	if asked != 7 {
		t.Errorf("%d queries: %q", asked, queries)
	}
}
