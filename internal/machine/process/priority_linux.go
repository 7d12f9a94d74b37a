package process

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// preferred is by how many steps of niceness a process that measures goes
// before what it measures. A plane that takes all cores would make the
// instrument late, and its figures wrong.
const preferred = 5

// Prefer lets this process go before others by a few steps of niceness, which
// takes a privileged user; for others nothing changes and it returns false. What
// Start starts is not preferred, unless its Spec says so.
func Prefer() bool {
	before, err := readNiceness(0)
	if err != nil {
		return false
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return false
	}
	for _, task := range tasks { // threads to come inherit from these
		tid, err := strconv.Atoi(task.Name())
		if err != nil || unix.Setpriority(unix.PRIO_PROCESS, tid, before-preferred) != nil {
			return false
		}
	}
	return true
}

// readNiceness returns that of a process, 0 being this thread.
func readNiceness(pid int) (int, error) {
	raw, err := unix.Getpriority(unix.PRIO_PROCESS, pid)
	return 20 - raw, err // the system call counts the other way round
}

// asTheParent gives this thread, and with it the child that it forks, the
// niceness of the process that started us, unless that is a lower one.
func asTheParent() {
	own, err := readNiceness(0)
	if err != nil {
		return
	}
	if parents, err := readNiceness(os.Getppid()); err == nil && parents > own {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, parents) // giving way is always allowed
	}
}
