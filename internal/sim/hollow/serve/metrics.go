package serve

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// answerMetrics answers with the metrics of the cluster in Prometheus' text format; not ok
// for another path. What an API server has too has its name.
func (c *Cluster) answerMetrics(w http.ResponseWriter, path string) bool {
	if path != "/metrics" {
		return false
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	fmt.Fprintf(w, "# TYPE apiserver_current_inflight_requests gauge\napiserver_current_inflight_requests{request_kind=\"mutating\"} %d\n"+
		"apiserver_current_inflight_requests{request_kind=\"readOnly\"} %d\n", c.writes.Load(), c.reads.Load())
	fmt.Fprintf(w, "# TYPE apiserver_longrunning_requests gauge\napiserver_longrunning_requests{verb=\"WATCH\"} %d\n", c.watches.Load())
	fmt.Fprint(w, "# TYPE apiserver_storage_objects gauge\n")
	tables := c.registry.Store().Tables()
	slices.SortFunc(tables, func(a, b *store.Table) int { return strings.Compare(a.Name, b.Name) })
	for _, t := range tables {
		fmt.Fprintf(w, "apiserver_storage_objects{resource=%q} %d\n", t.Name, t.Len())
	}
	if u, err := usage.Of(os.Getpid()); err == nil {
		fmt.Fprintf(w, "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total %g\n# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %d\n",
			u.CPUSeconds, u.Resident)
	}
	if c.shared.options.Metrics != nil {
		c.shared.options.Metrics(w)
	}
	return true
}
