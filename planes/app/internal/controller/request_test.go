package controller

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/planes/internal/kit/instrument"
)

// TestTimeouts holds that each request has a bound, by its verb.
func TestTimeouts(t *testing.T) {
	r := requests{metrics: newMetrics(instrument.New(""), clock.Start(), 1), readTimeout: time.Hour}
	for verb, want := range map[string]time.Duration{
		"Get": time.Hour, "List": listTimeout, "Create": writeTimeout, "Update": writeTimeout, "Patch": writeTimeout,
		"StatusPatch": writeTimeout, "StatusUpdate": writeTimeout, "Delete": writeTimeout,
	} {
		if got := r.timeoutOf(verb); got != want {
			t.Errorf("%s: %v, want %v", verb, got, want)
		}
		ctx, done := r.beginOwn(t.Context(), verb, "Application")
		if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
			t.Errorf("%s: bounded %t, %v", verb, bounded, ctx.Err())
		}
		done()
		if ctx.Err() == nil {
			t.Errorf("%s: its end releases nothing", verb)
		}
	}
}
