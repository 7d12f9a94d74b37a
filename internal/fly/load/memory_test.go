package load_test

import (
	"context"
	"net/http"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/pace"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// A backlog costs no memory: ten million calls that are overdue at a server that
// does not answer take what ten thousand take.
func TestMemoryIsBoundedWhateverTheBacklog(t *testing.T) {
	few, many := backlog(t, 10_000), backlog(t, 10_000_000)
	t.Logf("10,000 calls: %d KiB, 10,000,000: %d KiB", few>>10, many>>10)
	const pointer = 8 // is the least that is kept for each call
	if perCall := float64(many-few) / 9_990_000; perCall >= pointer/2 {
		t.Errorf("ten million overdue calls take %d bytes, ten thousand %d: %.1f a call", many, few, perCall)
	}
}

// backlog returns what lives on the heap while so many calls are overdue, and nothing
// happens: as many as may be are in the server.
func backlog(t *testing.T, calls int) int64 {
	t.Helper()
	const inFlight = 1500
	release := make(chan struct{})
	var arrived atomic.Int64
	b := newBench(t, func(_ http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}, load.Options{InFlight: inFlight})
	defer close(release)
	before := inUse()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	p := load.Plan{Ops: []record.Op{op("create")}, Count: calls, Pace: pace.Poisson(1e9, 1), Build: post}
	go func() { ended <- b.Run(ctx, p) }()
	repotest.Eventually(t, "all calls that may be in flight wait in the server", func() bool { return arrived.Load() == inFlight })
	used := inUse() - before
	cancel()
	closed := make(chan struct{})
	go func() { b.Close(); close(closed) }()
	<-ended
	<-closed // what it holds is no part of the next heap
	return used
}

func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
