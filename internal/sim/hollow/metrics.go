package hollow

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/usage"
	"github.com/windtunnel/windtunnel/internal/sim/hollow/store"
)

// latenessBounds returns the upper bounds of the histogram of how late heartbeats
// were.
func latenessBounds() [13]time.Duration {
	const ms = time.Millisecond
	return [...]time.Duration{ms, 2 * ms, 5 * ms, 10 * ms, 20 * ms, 50 * ms, 100 * ms, 200 * ms, 500 * ms, 1000 * ms, 2000 * ms, 5000 * ms, 10000 * ms}
}

// lateness counts heartbeats by how late they were.
type lateness struct {
	buckets [14]atomic.Int64 // of latenessBounds, and without a bound
	sum     atomic.Int64     // nanoseconds
}

func (l *lateness) observe(late time.Duration) {
	bounds := latenessBounds()
	at, _ := slices.BinarySearch(bounds[:], late)
	l.buckets[at].Add(1)
	l.sum.Add(int64(late))
}

// write writes the histogram in Prometheus' text format.
func (l *lateness) write(w io.Writer) {
	const name = "windtunnel_hollow_heartbeat_lateness_seconds"
	fmt.Fprintf(w, "# HELP %s How late leases of nodes were renewed, of all clusters of the process.\n# TYPE %s histogram\n", name, name)
	n := int64(0)
	for i, bound := range latenessBounds() {
		n += l.buckets[i].Load()
		fmt.Fprintf(w, "%s_bucket{le=\"%g\"} %d\n", name, bound.Seconds(), n)
	}
	n += l.buckets[len(l.buckets)-1].Load()
	fmt.Fprintf(w, "%s_bucket{le=\"+Inf\"} %d\n%s_sum %g\n%s_count %d\n", name, n, name, time.Duration(l.sum.Load()).Seconds(), name, n)
}

// metrics answers what the cluster says of itself, in Prometheus' text format; not
// ok for another path. What an API server has too has its name.
func (c *Cluster) metrics(w http.ResponseWriter, path string) bool {
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
	if c.server.engine != nil {
		c.server.engine.late.write(w)
	}
	return true
}
