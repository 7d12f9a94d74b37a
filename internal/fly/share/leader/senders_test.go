package leader

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// What workers say adds up; one that is lost sends nothing more, and what it has sent
// stays.
func TestSendersAddUp(t *testing.T) {
	own := repotest.Must(load.New(load.Options{Endpoint: flighttest.NewServer(t).Endpoint(), Clock: clock.Start(), Connections: 1}))(t)
	t.Cleanup(func() { _ = own.Close() })
	s := NewSenders(slog.New(slog.DiscardHandler))
	s.SetOwn(own)
	if p := s.Progress(); p != own.Progress() {
		t.Errorf("without workers: %+v", p)
	}
	tell := func(worker int, p message.Progress) {
		raw := repotest.Must(json.Marshal(p))(t)
		s.takeProgress(worker, raw)
	}
	one := message.Progress{Unexpected: 2, Nodes: 5, Load: load.Tally{
		Progress:  load.Progress{Count: 100, Sent: 50, Ended: 40, OK: 30, Failed: 10, Late: 3, Requested: 20, P99: time.Hour},
		Latencies: map[int]int64{10: 40},
	}}
	tell(0, message.Progress{})
	tell(0, one) // the last word counts
	tell(1, one)
	s.takeProgress(1, json.RawMessage("nonsense"))
	if p := s.Progress(); p.Count != 200 || p.Ended != 80 || p.Failed != 20 || p.Late != 6 || p.Requested != 40 || p.P99 != 10*time.Microsecond {
		t.Errorf("of two workers: %+v", p)
	}
	never := func(string, int) bool { return false }
	if n := s.FailedForGood(never); n != 4 || s.CountNodes() != 10 {
		t.Errorf("%d failed for good, %d nodes", n, s.CountNodes())
	}
	s.noteLost(1)
	s.noteLost(7)
	if p := s.Progress(); p.Requested != 20 || p.Ended != 80 || s.CountNodes() != 5 {
		t.Errorf("after a loss: %+v, %d nodes", p, s.CountNodes())
	}
}
