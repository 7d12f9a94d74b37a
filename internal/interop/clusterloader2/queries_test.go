package clusterloader2_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/series"
	"github.com/windtunnel/windtunnel/internal/series/promql"
)

// TestQueriesAreQueries asks an empty store all that our configs ask: there is
// no answer and no fault.
func TestQueriesAreQueries(t *testing.T) {
	db, err := promql.Open(series.NewStore(), promql.Default(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for _, tt := range []struct {
		file string
		set  map[string]string
	}{
		{"load/config.yaml", map[string]string{"Nodes": "20"}},
		{"load/config.yaml", map[string]string{"Nodes": "20", "CL2_SLOW": "5"}},
		{"paces/config.yaml", map[string]string{"Nodes": "10"}},
	} {
		s, _, err := clusterloader2.Import(filepath.Join("testdata", filepath.FromSlash(tt.file)), clusterloader2.Options{Set: tt.set})
		if err != nil {
			t.Fatal(err)
		}
		var queries []string
		for _, o := range s.Objectives {
			queries = append(queries, o.Query)
		}
		for _, m := range s.Measures {
			queries = append(queries, m.Query)
		}
		for _, q := range queries {
			if q == "" {
				continue
			}
			asked++
			if _, err := db.Instant(t.Context(), strings.ReplaceAll(q, "%v", "90s"), 0); err != nil {
				t.Errorf("%s: %v", q, err)
			}
		}
	}
	if asked < 20 {
		t.Errorf("only %d queries were asked", asked)
	}
}
