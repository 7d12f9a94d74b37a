package hollow_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/hollow"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// heap returns how many bytes of memory are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestProofMemoryOfClusters bounds what clusters take that nobody talks to, and
// what an object takes beyond its own bytes.
func TestProofMemoryOfClusters(t *testing.T) {
	repotest.Proof(t)
	const clusters, objects = 2000, 20_000
	s, err := hollow.New(hollow.Options{Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	before := heap()
	for i := range clusters {
		if _, err := s.Cluster(fmt.Sprint("c", i)); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / clusters
	t.Logf("%d bytes a cluster", each)
	if each > 300_000 {
		t.Errorf("%d bytes a cluster", each)
	}
	c, err := s.Cluster("full")
	if err != nil {
		t.Fatal(err)
	}
	const value = 1000
	before = heap()
	for i := range objects {
		o := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"object-%d","namespace":"default"},"data":{"a":%q}}`, i, strings.Repeat("x", value))
		if _, err := c.Load(strings.NewReader(o)); err != nil {
			t.Fatal(err)
		}
	}
	more := (heap()-before)/objects - value
	t.Logf("%d bytes an object beyond its value of %d", more, value)
	if more > 600 {
		t.Errorf("%d bytes an object beyond its value", more)
	}
}
