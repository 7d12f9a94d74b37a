package flight

import (
	"context"
	"strconv"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
	"github.com/windtunnel/windtunnel/internal/observe/usage"
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
	r      *run
	series map[string]record.SeriesID
}

func (b *traffic) loop(ctx context.Context) {
	tick := time.NewTicker(bytesEvery)
	defer tick.Stop()
	for {
		b.sample()
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.sample()
			return
		}
	}
}

func (b *traffic) sample() {
	b.client("observe", b.r.watcher.Traffic())
	b.client("load", b.r.generator.Client().Traffic())
	b.r.status.mu.Lock()
	f := b.r.status.fleet // it comes later
	b.r.status.mu.Unlock()
	if f != nil {
		b.client("fleet", f.Traffic())
	}
}

func (b *traffic) client(name string, all []wire.Traffic) {
	at := b.r.clock.Now()
	for _, t := range all {
		for metric, v := range map[string]uint64{sentBytes: t.Sent, receivedBytes: t.Received} {
			key := name + metric + strconv.Itoa(t.Connection)
			id, known := b.series[key]
			if !known {
				id = b.r.records.Series(record.Series{Target: usage.Self, Name: metric, Labels: []record.Label{
					{Name: "client", Value: name}, {Name: "connection", Value: strconv.Itoa(t.Connection)}}})
				b.series[key] = id
			}
			b.r.records.Sample(record.Sample{Series: id, At: at, Value: float64(v)})
		}
	}
}
