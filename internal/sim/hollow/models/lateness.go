package models

import (
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"
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

// writeHistogram writes the histogram in Prometheus' text format.
func (l *lateness) writeHistogram(w io.Writer) {
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
