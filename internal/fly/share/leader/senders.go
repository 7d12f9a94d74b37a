package leader

import (
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/windtunnel/windtunnel/internal/fly/load"
	"github.com/windtunnel/windtunnel/internal/fly/share/message"
)

// Senders are all who send a run's load: the run's own generator and its workers, which
// say where they stand each second and whenever a part of the load ends.
type Senders struct {
	own *load.Generator
	log *slog.Logger

	// died is told once of the first subject of each worker that ended by itself.
	died chan message.Death

	mu      sync.Mutex
	workers map[int]message.Progress
}

// NewSenders returns those of a run that has no generator yet.
func NewSenders(log *slog.Logger) *Senders {
	return &Senders{log: log, died: make(chan message.Death, maxWorkerPods)}
}

// takeProgress takes what a worker says.
func (s *Senders) takeProgress(worker int, said json.RawMessage) {
	var p message.Progress
	if err := json.Unmarshal(said, &p); err != nil {
		s.log.Warn("what a worker says of itself cannot be read", slog.Int("worker", worker), slog.Any("error", err))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.workers == nil {
		s.workers = map[int]message.Progress{}
	}
	if p.Died != nil && s.workers[worker].Died == nil {
		s.died <- *p.Died // there is room for one of each worker
	}
	s.workers[worker] = p
}

// noteLost takes note that a worker sends nothing more.
func (s *Senders) noteLost(worker int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.workers[worker]; ok {
		p.Load.Requested, p.Nodes = 0, 0
		s.workers[worker] = p
	}
}

// SetOwn says what sends the load of the run itself.
func (s *Senders) SetOwn(g *load.Generator) { s.own = g }

// Died tells once of the first subject of each worker that ended by itself.
func (s *Senders) Died() <-chan message.Death { return s.died }

// Progress is where all of them stand together.
func (s *Senders) Progress() load.Progress {
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

// FailedForGood counts the calls that failed for good and that nobody expects to.
func (s *Senders) FailedForGood(expected func(step string, code int) bool) int {
	n := s.own.FailedForGood(expected)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.workers {
		n += p.Unexpected
	}
	return n
}

// CountNodes is how many of the fleet's nodes are schedulable, as far as workers have said.
func (s *Senders) CountNodes() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.workers {
		n += p.Nodes
	}
	return n
}
