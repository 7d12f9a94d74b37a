package promql_test

import (
	"context"
	"fmt"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/promql"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// Most often the store comes from series.Read and the epoch from the run's
// manifest; here a minute of scrapes is made up.
func Example() {
	store := series.NewStore()
	stream := &record.Stream{Series: []record.Series{
		{Target: "kube-apiserver", Name: "apiserver_request_total", Labels: []record.Label{{Name: "verb", Value: "GET"}}},
		{Target: "kube-apiserver", Name: "apiserver_request_total", Labels: []record.Label{{Name: "verb", Value: "POST"}}},
	}}
	visit := store.Visitor(stream)
	for i := range 13 {
		at := clock.Time(i) * clock.Time(5*time.Second)
		visit.Scrape(record.Scrape{Target: "kube-apiserver", At: at})
		visit.Sample(record.Sample{Series: 0, At: at, Value: float64(100 * i)})
		visit.Sample(record.Sample{Series: 1, At: at, Value: float64(25 * i)})
	}
	db, err := promql.Open(store, promql.Default(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)))
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := db.Instant(context.Background(), `sum by (verb) (rate(apiserver_request_total{job="kube-apiserver"}[30s]))`, clock.Time(time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range answer.Series {
		fmt.Println(s, s.Points[0].Value)
	}
	// Output:
	// {verb="GET"} 20
	// {verb="POST"} 5
}
