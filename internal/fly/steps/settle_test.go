package steps

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/repotest"
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
	repotest.NoError(t, b.measureBaseline(t.Context()))
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

// TestSamplesAroundAStep: what a query counts until a step's end is read before the end is in
// the records, also where the run was stopped by then.
func TestSamplesAroundAStep(t *testing.T) {
	b := newBench(t, head(1)+"- pause: 1s\n")
	var order []string
	ctx, stop := context.WithCancel(t.Context())
	b.Sample = func(ctx context.Context, step string) {
		if ctx.Err() != nil {
			t.Error("what has been stopped is not read")
		}
		order = append(order, "read "+step)
	}
	repotest.NoError(t, b.Track(ctx, "fill", func() error { order = append(order, "done"); stop(); return nil }))
	if got := strings.Join(order, ", "); got != "read fill, done, read fill" {
		t.Error(got)
	}
	if err := b.Track(ctx, "never", func() error { return nil }); err == nil || len(order) != 3 {
		t.Errorf("a step after the stop: %v, %q", err, order)
	}
}
