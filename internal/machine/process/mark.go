package process

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// A process that leaves its group and session, as daemons do, is found by the environment
// that it was given: a variable whose value is the private folder of the run, a name that
// occurs once.
const markVariable = "WINDTUNNEL_OWNER"

// Mark returns a variable, NAME=value: whatever has it in its environment ends with
// windtunnel. A nil Reaper has none.
func (r *Reaper) Mark() string {
	if r == nil {
		return ""
	}
	mark := markVariable + "=" + r.dir
	r.recordEntry(entry{Mark: mark})
	return mark
}

// killMarked kills the processes that have a mark until a look finds none: one may be
// starting another meanwhile.
func killMarked(mark string) {
	if !strings.HasPrefix(mark, markVariable+"="+string(filepath.Separator)) {
		return
	}
	for range cleanWithin / (5 * time.Millisecond) {
		found := markedProcesses(mark)
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			_ = kernel.Kill(pid, syscall.SIGKILL) // one that has ended is none
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// markedProcesses returns the processes that have a mark. One that has ended has no environment.
func markedProcesses(mark string) (pids []int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		raw, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ")) // of others it is not for us to read
		if err == nil && bytes.Contains(append([]byte{0}, raw...), append(append([]byte{0}, mark...), 0)) {
			pids = append(pids, pid)
		}
	}
	return pids
}
