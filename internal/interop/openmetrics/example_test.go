package openmetrics_test

import (
	"fmt"
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/interop/openmetrics"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
)

// Most often it is a run directory that is written, with Write.
func Example() {
	store := series.NewStore()
	stream := &record.Stream{
		Series:   []record.Series{{Target: "etcd", Name: "etcd_server_proposals_failed_total"}},
		Families: []record.Family{{Name: "etcd_server_proposals_failed_total", Type: "counter", Help: "Proposals that failed."}},
	}
	visit := store.Visitor(stream)
	visit.Scrape(record.Scrape{Target: "etcd", At: 0})
	visit.Sample(record.Sample{Series: 0, At: 0, Value: 2})
	o := openmetrics.Options{Keep: []string{"etcd_*"}, Extra: []record.Label{{Name: "run", Value: "density"}}}
	if _, err := openmetrics.WriteStore(os.Stdout, store, time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC), o); err != nil {
		fmt.Println(err)
	}
	// Output:
	// # TYPE etcd_server_proposals_failed counter
	// # HELP etcd_server_proposals_failed Proposals that failed.
	// etcd_server_proposals_failed_total{component="etcd",instance="etcd",job="etcd",run="density"} 2 1777636800.000
	// # EOF
}
