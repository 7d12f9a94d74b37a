package steps

import (
	"context"
	"errors"

	"github.com/windtunnel/windtunnel/internal/machine/network"
)

// Answerer has workers be the answering ends of paths.
type Answerer interface {
	// Answer has a worker answer at the end of a step's path.
	Answer(ctx context.Context, worker int, step string) (network.Reach, error)
	// Answered ends that and returns what arrived there, by the run's clock.
	Answered(ctx context.Context, worker int, step string) ([]Arrived, error)
}

// Arrived is what a worker's end of a path has counted until a moment.
type Arrived struct {
	network.Arrival
	Busy float64 // seconds for which cores of its machine were busy, since that was started
}

var errNoAnswer = errors.New("its answering end is a worker, and there are none")
