package process

import (
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// OwnCPU returns the CPU time that this process has used, in all of its threads
// (getrusage(2)); 0 when that cannot be read.
func OwnCPU() time.Duration {
	used, err := kernel.OwnCPU()
	if err != nil {
		return 0
	}
	return used
}
