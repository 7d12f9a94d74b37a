package load_test

import (
	"context"
	"net/http"
	"runtime"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A backlog costs no memory: a million calls that are overdue at a server that
// does not answer take what ten thousand take.
func TestMemoryIsBoundedWhateverTheBacklog(t *testing.T) {
	few, many := backlog(t, 10_000), backlog(t, 1_000_000)
	t.Logf("10,000 calls: %d KiB, 1,000,000: %d KiB", few>>10, many>>10)
	// What is kept for each call would be a pointer at least; heaps differ by a few MiB
	// by what the server of the test does at the moment.
	const pointer = 8
	if perCall := float64(many-few) / 990_000; perCall >= pointer/2 {
		t.Errorf("a million overdue calls take %d bytes, ten thousand %d: %.1f a call", many, few, perCall)
	}
}

// backlog returns the heap that is in use while so many calls are overdue.
func backlog(t *testing.T, calls int) int64 {
	t.Helper()
	release := make(chan struct{})
	b := newBench(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, load.Options{InFlight: 1500})
	defer close(release)
	before := inUse()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	p := load.Plan{Ops: []record.Op{op("create")}, Count: calls, Pace: pace.Poisson(1e9, 1), Build: post}
	go func() { ended <- b.Run(ctx, p) }()
	repotest.Eventually(t, "1,500 calls have left", func() bool { return b.Progress().Sent >= 1500 })
	used := inUse() - before
	cancel()
	go b.Close()
	<-ended
	return used
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}
