package steps

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/flight/flighttest"
	"github.com/windtunnel/windtunnel/internal/fly/flight/preflight"
	"github.com/windtunnel/windtunnel/internal/unit"
	"github.com/windtunnel/windtunnel/scenario"
)

// TestSettleWithRetries settles a plane that always had retries, and then one that
// has more of them than at first.
func TestSettleWithRetries(t *testing.T) {
	t.Parallel()
	b := newBench(t, head(1)+"- {name: c, settle: {within: 7s}}\n")
	var rate *atomic.Int64
	b.Plane, rate = flighttest.HotQueue(t)
	if err := b.measureBaseline(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.baseline.state.Queues["kcm job"].Retries; got < 30 || got > 200 {
		t.Fatalf("%v items/s come back, it should be 100", got)
	}
	cool := &scenario.Settle{Within: unit.Duration(7 * time.Second)}
	if err := (Settle{"cool", cool}).Do(t.Context(), b.Session); err != nil {
		t.Errorf("it does not come to rest: %v", err)
	}
	rate.Store(10)
	cool.Within = unit.Duration(3 * time.Second)
	if err := (Settle{"cool", cool}).Do(t.Context(), b.Session); !errors.Is(err, preflight.ErrNotQuiet) || !strings.Contains(err.Error(), "come back to queue kcm job") {
		t.Errorf("ten times as many retries: %v", err)
	}
}
