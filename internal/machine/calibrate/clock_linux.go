package calibrate

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// threadSeconds is the CPU time of this thread.
func threadSeconds() (float64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0, fmt.Errorf("calibrate: %w", err)
	}
	return float64(t.Nano()) / 1e9, nil
}
