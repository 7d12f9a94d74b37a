package flight

import (
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/steps"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestTraffic samples what goes over the run's own connections.
func TestTraffic(t *testing.T) {
	b := newBench(t, head(1)+"- {name: a, create: {body: map, count: 50, pace: {burst: true}}}\n")
	carried := newTraffic(b.dir.records, b.clock)
	carried.addClient("load", b.generator.Client().Traffic)
	carried.sampleBytes()
	repotest.NoError(t, steps.Run(t.Context(), b.newSession()))
	carried.sampleBytes()
	repotest.NoError(t, b.dir.records.Close())
	store := repotest.Must(series.Read(b.dir.File(record.StreamFile)))(t)
	for _, name := range []string{sentBytes, receivedBytes} {
		found := store.Select("windtunnel", name, map[string]string{"client": "load", "connection": "0"})
		if len(found) != 1 {
			t.Fatalf("%d series of %s", len(found), name)
		}
		if v, _ := found[0].Last(); v < 1000 {
			t.Errorf("%s is %v after 50 calls", name, v)
		}
	}
}
