package robust_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// taken is what a process took.
type taken struct {
	exit   int
	cpu    time.Duration
	memory int64 // bytes resident, the most there were
}

// everyLook is how often the memory of a process is looked at: what getrusage says of
// it afterwards is at least what this process had when it started the other.
const everyLook = 10 * time.Millisecond

var peak = regexp.MustCompile(`VmHWM:\s+([0-9]+) kB`)

// measure runs a command to its end.
func measure(c *exec.Cmd) (taken, error) {
	if err := c.Start(); err != nil {
		return taken{exit: -1}, err
	}
	var memory int64
	over, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for {
			if raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Process.Pid)); err == nil {
				if m := peak.FindSubmatch(raw); m != nil {
					kilobytes, _ := strconv.ParseInt(string(m[1]), 10, 64)
					memory = max(memory, kilobytes<<10)
				}
			}
			select {
			case <-time.After(everyLook):
			case <-over:
				return
			}
		}
	}()
	err := c.Wait()
	close(over)
	<-looked
	return taken{c.ProcessState.ExitCode(), c.ProcessState.UserTime() + c.ProcessState.SystemTime(), memory}, err
}
