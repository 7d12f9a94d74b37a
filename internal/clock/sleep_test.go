package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
)

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("why")
		ctx, cancel := context.WithCancelCause(t.Context())
		begun := time.Now()
		if err := clock.Sleep(ctx, 3*time.Second); err != nil || time.Since(begun) != 3*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if err := clock.Sleep(ctx, 0); err != nil {
			t.Error(err)
		}
		go func() { time.Sleep(time.Second); cancel(why) }()
		if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, why) {
			t.Error(err)
		}
		if err := clock.Sleep(ctx, -1); !errors.Is(err, why) {
			t.Error(err)
		}
	})
}
