package flight

import (
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/windtunnel/windtunnel/internal/fly/load"
)

// senders are all who send a run's load: the run's own generator and its workers, which
// say where they stand each second and whenever a part of the load ends.
type senders struct {
	own *load.Generator
	log *slog.Logger

	// died is told once of the first subject of each worker that ended by itself.
	died chan diedThere

	mu      sync.Mutex
	workers map[int]workerProgress
}

func newSenders(log *slog.Logger) *senders {
	return &senders{log: log, died: make(chan diedThere, maxWorkerPods)}
}

// workerProgress is where a worker stands.
type workerProgress struct {
	Load       load.Tally `json:"load"`
	Unexpected int        `json:"unexpected,omitempty"` // calls that failed for good though nobody expects it
	Nodes      int        `json:"nodes,omitempty"`      // of its share of the fleet that are schedulable
	Died       *diedThere `json:"died,omitempty"`       // the first of its subjects that ended by itself
}

// diedThere is a subject of a worker that ended by itself.
type diedThere struct {
	Subject string `json:"subject"`
	Why     string `json:"why"`
}

// takeProgress takes what a worker says.
func (s *senders) takeProgress(worker int, said json.RawMessage) {
	var p workerProgress
	if err := json.Unmarshal(said, &p); err != nil {
		s.log.Warn("what a worker says of itself cannot be read", slog.Int("worker", worker), slog.Any("error", err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers == nil {
		s.workers = map[int]workerProgress{}
	}
	if p.Died != nil && s.workers[worker].Died == nil {
		s.died <- *p.Died // there is room for one of each worker
	}
	s.workers[worker] = p
}

// noteLost takes note that a worker sends nothing more.
func (s *senders) noteLost(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.workers[worker]; ok {
		p.Load.Requested, p.Nodes = 0, 0
		s.workers[worker] = p
	}
}

// Progress is where all of them stand together.
func (s *senders) Progress() load.Progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.workers) == 0 {
		return s.own.Progress()
	}
	own := s.own.Tally()
	own.Latencies = nil // of what came before the load
	all := []load.Tally{own}
	for _, p := range s.workers {
		all = append(all, p.Load)
	}
	return load.Sum(all)
}

// failedForGood counts the calls that failed for good and that nobody expects to.
func (s *senders) failedForGood(expected func(step string, code int) bool) int {
	n := s.own.FailedForGood(expected)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.workers {
		n += p.Unexpected
	}
	return n
}

// countNodes is how many of the fleet's nodes are schedulable, as far as workers have said.
func (s *senders) countNodes() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.workers {
		n += p.Nodes
	}
	return n
}
