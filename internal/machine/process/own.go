package process

import (
	"time"

	"golang.org/x/sys/unix"
)

// OwnCPU returns the CPU time that this process has used, in all of its threads
// (getrusage(2)); 0 when that cannot be read.
func OwnCPU() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
