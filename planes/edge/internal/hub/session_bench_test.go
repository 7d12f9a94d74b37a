package hub

import (
	"context"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/edge/internal/message"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// taker is a connection that takes everything, and says so.
type taker struct{ taken chan struct{} }

func (c *taker) Send([]byte) error { c.taken <- struct{}{}; return nil }
func (c *taker) Close() error      { return nil }

// noted is a store that says what was written down.
type noted struct {
	localStore
	done chan struct{}
}

func (s *noted) recordVersion(context.Context, key, uint64) error { s.done <- struct{}{}; return nil }

// BenchmarkDelivery sends one message after the other to an edge that acknowledges each.
func BenchmarkDelivery(b *testing.B) {
	store, conn := &noted{done: make(chan struct{})}, &taker{make(chan struct{})}
	h := &Hub{o: Default(), store: store, sessions: newSessions(), ctx: b.Context}
	h.lastSent = newLastSent(h.o)
	h.o.Clock = clock.Start()
	h.metrics = newMetrics(h, instrument.New(""))
	s := &session{hub: h, node: "edge-0", conn: conn, over: make(chan struct{})}
	b.ReportAllocs()
	version := uint64(0)
	for b.Loop() {
		version++
		m := &outgoing{key: key{node: "edge-0", kind: "pod", uid: "u"}, version: version, message: message.New(1, message.Route{Operation: message.Update}, nil)}
		s.enqueue(m)
		<-conn.taken
		s.onAcknowledgement(m.message.Header.ID)
		<-store.done
	}
	h.wait.Wait()
}
