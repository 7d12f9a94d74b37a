//go:build linux || darwin

package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Signals that Windows has not.
const (
	SIGSTOP = syscall.SIGSTOP
	SIGCONT = syscall.SIGCONT
	SIGXFSZ = syscall.SIGXFSZ
)

// Lock locks a file without waiting (flock(2)), until the file is closed. ErrLocked: another
// process has the lock.
func Lock(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// LockFolder opens and locks a folder, which may not be a symbolic link. The lock ends when
// the file is closed.
func LockFolder(dir string) (*os.File, error) {
	file, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := Lock(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// IsOwn tells whether a file belongs to the user of this process.
func IsOwn(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}

// Kill sends a signal to a process, or to the process group -pid.
func Kill(pid int, s syscall.Signal) error { return unix.Kill(pid, s) }

// KillGroup kills the process group that a command leads.
func KillGroup(pid int) error { return unix.Kill(-pid, unix.SIGKILL) }

// OwnGroup lets a command lead a process group of its own.
func OwnGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// OwnSession lets a command lead a session of its own.
func OwnSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// SetUser lets a command run as a user and a group.
func SetUser(cmd *exec.Cmd, uid, gid uint32) error {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	return nil
}

// OpenFiles returns how many files this process may have open.
func OpenFiles() Limit { return limitOf(unix.RLIMIT_NOFILE) }

// Processes returns how many processes this user may have.
func Processes() Limit { return limitOf(unix.RLIMIT_NPROC) }

func limitOf(which int) Limit {
	var l unix.Rlimit
	if unix.Getrlimit(which, &l) != nil {
		return Limit{}
	}
	return Limit{Soft: l.Cur, Hard: l.Max}
}

// Disk returns what the file system of a path has.
func Disk(path string) (DiskSpace, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return DiskSpace{}, err
	}
	return DiskSpace{Free: s.Bavail * uint64(s.Bsize), InMemory: isMemory(int64(s.Type))}, nil //nolint:unconvert // the type's width depends on the system
}

// OwnCPU returns the CPU time of this process, in all of its threads (getrusage(2)).
func OwnCPU() (time.Duration, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, err
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), nil
}

// Release returns name and release of the kernel, such as "Linux 6.18.0".
func Release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return strings.TrimSpace(unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]))
}

// SocketPair makes a connection: our end, and a file that a child can be given.
func SocketPair() (ours net.Conn, theirs *os.File, err error) {
	pair, err := socketPair()
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	file := os.NewFile(uintptr(pair[0]), "windtunnel")
	theirs = os.NewFile(uintptr(pair[1]), "caller")
	ours, err = net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make a socket: %w", err), theirs.Close())
	}
	return ours, theirs, nil
}
