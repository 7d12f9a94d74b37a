package flight

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/machine/usage"
	facts "github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
)

// Names of the samples of our own connections, by client and connection.
const (
	sentBytes     = "windtunnel_connection_sent_bytes_total"
	receivedBytes = "windtunnel_connection_received_bytes_total"
)

// bytesEvery is how often the connections' bytes are sampled.
const bytesEvery = 5 * time.Second

// traffic samples what goes over each connection of windtunnel's clients.
type traffic struct {
	records *record.Writer
	clock   clock.Clock
	series  map[string]record.SeriesID

	mu      sync.Mutex
	clients []trafficSource
}

// trafficSource is one of the clients: it says what went over its connections.
type trafficSource struct {
	name string
	read func() []wire.Traffic
}

func newTraffic(records *record.Writer, c clock.Clock) *traffic {
	return &traffic{records: records, clock: c, series: map[string]record.SeriesID{}}
}

// addClient lets a client be sampled, too.
func (t *traffic) addClient(name string, read func() []wire.Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.clients = append(t.clients, trafficSource{name, read})
}

// samplePeriodically samples until ctx ends.
func (t *traffic) samplePeriodically(ctx context.Context) {
	tick := time.NewTicker(bytesEvery)
	defer tick.Stop()
	for {
		t.sampleBytes()
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.sampleBytes()
			return
		}
	}
}

func (t *traffic) sampleBytes() {
	t.mu.Lock()
	clients := t.clients
	t.mu.Unlock()
	for _, c := range clients {
		t.sampleClient(c.name, c.read())
	}
	id := t.records.Series(record.Series{Target: usage.Self, Name: facts.StalledSeries})
	t.records.Sample(record.Sample{Series: id, At: t.clock.Now(), Value: t.records.Stalled().Seconds()})
}

func (t *traffic) sampleClient(name string, connections []wire.Traffic) {
	at := t.clock.Now()
	for _, c := range connections {
		for metric, v := range map[string]uint64{sentBytes: c.Sent, receivedBytes: c.Received} {
			key := name + metric + strconv.Itoa(c.Connection)
			id, known := t.series[key]
			if !known {
				id = t.records.Series(record.Series{Target: usage.Self, Name: metric, Labels: []record.Label{
					{Name: "client", Value: name}, {Name: "connection", Value: strconv.Itoa(c.Connection)}}})
				t.series[key] = id
			}
			t.records.Sample(record.Sample{Series: id, At: at, Value: float64(v)})
		}
	}
}
