package flight

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/load"
)

// What workers say adds up; one that is lost sends nothing more, and what it has sent
// stays.
func TestSendersAddUp(t *testing.T) {
	b := newBench(t, head(1)+"- {create: {body: map, count: 1, pace: {burst: true}}}\n")
	s := newSenders(slog.New(slog.DiscardHandler))
	s.own = b.generator
	if p := s.Progress(); p != b.generator.Progress() {
		t.Errorf("without workers: %+v", p)
	}
	tell := func(worker int, p workerProgress) {
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		s.takeProgress(worker, raw)
	}
	one := workerProgress{Unexpected: 2, Nodes: 5, Load: load.Tally{
		Progress:  load.Progress{Count: 100, Sent: 50, Ended: 40, OK: 30, Failed: 10, Late: 3, Requested: 20, P99: time.Hour},
		Latencies: map[int]int64{10: 40},
	}}
	tell(0, workerProgress{})
	tell(0, one) // the last word counts
	tell(1, one)
	s.takeProgress(1, json.RawMessage("nonsense"))
	if p := s.Progress(); p.Count != 200 || p.Ended != 80 || p.Failed != 20 || p.Late != 6 || p.Requested != 40 || p.P99 != 10*time.Microsecond {
		t.Errorf("of two workers: %+v", p)
	}
	never := func(string, int) bool { return false }
	if n := s.failedForGood(never); n != 4 || s.countNodes() != 10 {
		t.Errorf("%d failed for good, %d nodes", n, s.countNodes())
	}
	s.noteLost(1)
	s.noteLost(7)
	if p := s.Progress(); p.Requested != 20 || p.Ended != 80 || s.countNodes() != 5 {
		t.Errorf("after a loss: %+v, %d nodes", p, s.countNodes())
	}
}
