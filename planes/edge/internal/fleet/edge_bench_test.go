package fleet

import (
	"math/rand/v2"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// mute is a connection that takes everything.
type mute struct{}

func (mute) Send([]byte) error { return nil }
func (mute) Close() error      { return nil }

// BenchmarkBeat has an edge send a keepalive: all that it costs but the connection.
func BenchmarkBeat(b *testing.B) {
	f := &Fleet{o: Default(), dice: rand.New(dice{})}
	f.o.Keepalive, f.o.Lease, f.o.Status, f.o.Nodes, f.o.Clock = 1, 0, 0, false, clock.Start()
	f.schedule = newSchedule(f.o.Clock, nil)
	f.check = &checker{}
	f.metrics = newMetrics(f, instrument.New(""))
	d := &driver{fleet: f, edge: edge{name: "edge-0"}}
	d.beat.Fire = func() { d.handleEvent(beat{}) }
	d.setConnection(mute{})
	b.ReportAllocs()
	for b.Loop() {
		f.schedule.wheel.Stop(&d.beat)
		d.beat.Fire()
	}
}
