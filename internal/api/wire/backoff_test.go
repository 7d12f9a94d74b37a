package wire_test

import (
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/wire"
)

func TestBackoff(t *testing.T) {
	b := wire.CallBackoff()
	for before, want := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 200 * time.Millisecond, 8: 25600 * time.Millisecond, 9: 30 * time.Second, 1 << 30: 30 * time.Second,
	} {
		if got := b.Pause(before); got != want {
			t.Errorf("after %d failures: %v, want %v", before, got, want)
		}
	}
	if least, most := b.Jittered(1, 0), b.Jittered(1, 1); least != 160*time.Millisecond || most != 240*time.Millisecond {
		t.Errorf("200ms becomes %v to %v", least, most)
	}
}
