package calibrate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/windtunnel/windtunnel/internal/machine/calibrate"
)

func TestMeasure(t *testing.T) {
	seconds, err := calibrate.Measure(t.Context(), calibrate.Repeats)
	if errors.Is(err, calibrate.ErrSystem) {
		t.Skip(err)
	}
	if err != nil || len(seconds) != calibrate.Repeats {
		t.Fatalf("%v, %v", seconds, err)
	}
	for _, s := range seconds {
		if s <= 0 {
			t.Errorf("a repeat without CPU time: %v", seconds)
		}
	}
	stopped := errors.New("stopped")
	ctx, stop := context.WithCancelCause(t.Context())
	stop(stopped)
	if _, err := calibrate.Measure(ctx, 1); !errors.Is(err, stopped) {
		t.Errorf("it goes on after its context's end: %v", err)
	}
}
