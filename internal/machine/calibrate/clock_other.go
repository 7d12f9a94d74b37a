//go:build !linux

package calibrate

// threadSeconds is the CPU time of this thread.
func threadSeconds() (float64, error) { return 0, ErrSystem }
