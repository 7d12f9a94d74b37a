package process

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// childAttributes are those of every child: a process group of its own, since Ctrl-C at the
// terminal is for windtunnel only, and an end together with the thread that started it.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitExit returns when the process has ended; it is a zombie then.
func awaitExit(pid int) {
	for {
		var info unix.Siginfo
		if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// enterForChild makes the next child of this thread start inside the group; leave is
// to be called when it has started. With v1 the thread itself enters (a child
// begins where its parent thread is), with v2 the kernel places the child.
func (g *Cgroup) enterForChild(attr *syscall.SysProcAttr) (leave func(), err error) {
	tid := strconv.Itoa(unix.Gettid())
	var back []func()
	leave = func() {
		for _, f := range back {
			f()
		}
	}
	for _, p := range g.parts {
		if p.version == 1 {
			if err := writeExisting(filepath.Join(p.dir, "tasks"), tid); err != nil {
				leave()
				return nil, fmt.Errorf("enter control group: %w", err)
			}
			back = append(back, func() { _ = writeExisting(filepath.Join(p.home, "tasks"), tid) })
			continue
		}
		fd, err := unix.Open(p.dir, unix.O_DIRECTORY|unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			leave()
			return nil, fmt.Errorf("open control group: %w", err)
		}
		attr.UseCgroupFD, attr.CgroupFD = true, fd
		back = append(back, func() { _ = unix.Close(fd) })
	}
	return leave, nil
}

// cpuTime returns the CPU that a process has used, to the nanosecond; 0 when it
// is gone. Its clock's number is made as clock_getcpuclockid(3) makes it.
func cpuTime(pid int) time.Duration {
	const schedClock = 2
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|schedClock), &at); err != nil {
		return 0
	}
	return time.Duration(at.Nano())
}
