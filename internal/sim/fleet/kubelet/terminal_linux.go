package kubelet

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/stream"
)

func openTerminal() (*terminal, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open terminal: %w", err)
	}
	ours := os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	var its *os.File
	if err == nil {
		its, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open terminal: %w", err), ours.Close())
	}
	return &terminal{ours, its}, nil
}

// resize sets the size; a terminal that is closed has none.
func (t *terminal) resize(s stream.Size) {
	if raw, err := t.ours.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: s.Height, Col: s.Width})
		})
	}
}

// leadSession lets a command lead a session whose terminal is its standard input.
func leadSession(a *syscall.SysProcAttr) {
	a.Setpgid = false // a session has a group
	a.Setsid, a.Setctty = true, true
}
