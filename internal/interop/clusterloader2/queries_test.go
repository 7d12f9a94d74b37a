package clusterloader2_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/interop/clusterloader2"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestQueriesAreQueries asks an empty store all that our configs ask: there is
// no answer and no fault.
func TestQueriesAreQueries(t *testing.T) {
	db := repotest.Must(promql.Open(series.NewStore(), promql.Default(time.Unix(0, 0))))(t)
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
		repotest.NoError(t, err)
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

// calls is a store in which calls that get pods took 0.1 s, but for some of 4 s.
func calls(t *testing.T, fast, slow float64) *promql.DB {
	t.Helper()
	store := series.NewStore()
	const family = "apiserver_request_sli_duration_seconds"
	stream := &record.Stream{}
	totals := []float64{}
	add := func(suffix, le string, total float64) {
		labels := []record.Label{{Name: "resource", Value: "pods"}, {Name: "scope", Value: "resource"}, {Name: "subresource", Value: ""}, {Name: "verb", Value: "GET"}}
		if le != "" {
			labels = append([]record.Label{{Name: "le", Value: le}}, labels...)
		}
		stream.Series = append(stream.Series, record.Series{Target: "kube-apiserver", Name: family + suffix, Labels: labels})
		totals = append(totals, total)
	}
	add("_bucket", "0.1", fast)
	add("_bucket", "1", fast)
	add("_bucket", "5", fast+slow)
	add("_bucket", "+Inf", fast+slow)
	add("_count", "", fast+slow)
	visit := store.Visitor(stream)
	for i := range 21 {
		at := clock.Time(i) * clock.Time(5*time.Second)
		visit.Scrape(record.Scrape{Target: "kube-apiserver", At: at})
		for n, total := range totals {
			visit.Sample(record.Sample{Series: record.SeriesID(n), At: at, Value: total * float64(i) / 20})
		}
	}
	return repotest.Must(promql.Open(store, promql.Default(time.Unix(0, 0))))(t)
}

// TestSlowCalls: where no kind of calls has more slow ones than allowed, the
// answer is within the bound; where one has, it is that one's latency; and
// without calls there is none.
func TestSlowCalls(t *testing.T) {
	for _, tt := range []struct {
		name, params string
		fast, slow   float64
		bound        float64
		pass         bool
	}{
		{"none slow", "allowedSlowCalls: 2", 1000, 0, 1, true},
		{"as many as allowed", "allowedSlowCalls: 60", 100, 50, 1, true},
		{"more than allowed", "allowedSlowCalls: 2", 100, 50, 1, false},
		{"none allowed", "allowedSlowCalls: 0", 100, 50, 1, false},
		{"another bound", "allowedSlowCalls: 2, singleResourceThreshold: 10s", 100, 50, 10, true},
		{"a bound that nothing holds", "singleResourceThreshold: 50ms", 1000, 0, 0.05, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, _ := imported(t, map[string]string{"c.yaml": top + measured("Sleep", "duration: 1s") +
				measured("APIResponsivenessPrometheus", "action: gather, enableViolations: true, useSimpleLatencyQuery: true, "+tt.params)}, clusterloader2.Options{Nodes: 1})
			o := s.Objectives[0]
			answer, err := calls(t, tt.fast, tt.slow).Instant(t.Context(), strings.ReplaceAll(o.Query, "%v", "90s"), clock.Time(100*time.Second))
			if err != nil || len(answer.Series) != 1 {
				t.Fatalf("%v %+v\n%s", err, answer, o.Query)
			}
			if got := answer.Series[0].Points[0].Value; *o.Max != tt.bound || (got <= *o.Max) != tt.pass {
				t.Errorf("%v of at most %v, pass: %v", got, *o.Max, tt.pass)
			}
			many := s.Objectives[1]
			if answer, err := calls(t, 1, 0).Instant(t.Context(), strings.ReplaceAll(many.Query, "%v", "90s"), clock.Time(100*time.Second)); err != nil || len(answer.Series) != 0 {
				t.Errorf("calls that were not made: %v %s", err, fmt.Sprint(answer))
			}
		})
	}
}

// TestPausedAvailability: while it is paused, availability is not judged.
func TestPausedAvailability(t *testing.T) {
	do := func(action string) string {
		return measured("APIAvailability", "action: "+action+", pollFrequency: 5s, threshold: 99")
	}
	nap := func(name string) string {
		return "- {name: " + name + ", measurements: [{identifier: i, method: Sleep, params: {duration: 1s}}]}\n"
	}
	for _, tt := range []struct{ steps, want string }{
		{do("start") + nap("a") + do("gather"), "a to a"},
		{nap("z") + do("start") + nap("a") + do("pause") + nap("b") + do("unpause") + nap("c") + nap("d") + do("gather"), "a to a, c to d"},
		{do("start") + do("pause") + nap("b") + do("unpause") + nap("c") + do("gather"), "c to c"},
		{do("start") + nap("a") + do("pause") + nap("b") + do("gather"), "a to a"},
	} {
		s, _ := imported(t, map[string]string{"c.yaml": top + tt.steps}, clusterloader2.Options{Nodes: 1})
		var got []string
		for _, o := range s.Objectives {
			got = append(got, o.Since+" to "+o.Until)
		}
		if strings.Join(got, ", ") != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.steps, strings.Join(got, ", "), tt.want)
		}
	}
}

// TestShortTimes: the windows of five minutes answer for a time that has no step
// of 30 seconds in it.
func TestShortTimes(t *testing.T) {
	s, _ := imported(t, map[string]string{"c.yaml": top + measured("Sleep", "duration: 1s") +
		measured("APIResponsivenessPrometheus", "action: gather, enableViolations: true")}, clusterloader2.Options{Nodes: 1})
	answer, err := calls(t, 1000, 0).Instant(t.Context(), strings.ReplaceAll(s.Objectives[0].Query, "%v", "8s"), clock.Time(100*time.Second))
	if err != nil || len(answer.Series) != 1 || answer.Series[0].Points[0].Value > 0.1 {
		t.Errorf("%v %+v", err, answer)
	}
}
