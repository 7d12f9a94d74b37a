package steps

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// heard is told what a step waits for, and stops it when it hears a text.
type heard struct {
	nobody
	text string
	stop func()
}

func (h heard) WaitingFor(_, what string) {
	if strings.Contains(what, h.text) {
		h.stop()
	}
}

// TestSettleWithRetries settles a plane that always had retries, and then one that
// has more of them than at first, until it says so.
func TestSettleWithRetries(t *testing.T) {
	t.Parallel()
	b := newBench(t, head(1)+"- {name: c, settle: {within: 7s}}\n")
	var retries *flighttest.Retries
	b.Plane, retries = flighttest.HotQueue(t)
	if err := b.measureBaseline(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.baseline.state.Queues["kcm job"].Retries; got <= 0 {
		t.Fatalf("%v items/s come back, and 100 do", got)
	}
	cool := &scenario.Settle{Within: unit.Duration(time.Hour)}
	if err := (Settle{"cool", cool}).Do(t.Context(), b.Session); err != nil {
		t.Errorf("it does not come to rest: %v", err)
	}
	retries.SetRate(1000)
	ctx, stop := context.WithCancelCause(t.Context())
	said := errors.New("it said so")
	b.Progress = heard{text: "come back to queue kcm job", stop: func() { stop(said) }}
	if err := (Settle{"cool", cool}).Do(ctx, b.Session); !errors.Is(err, said) {
		t.Errorf("ten times as many retries: %v", err)
	}
}
