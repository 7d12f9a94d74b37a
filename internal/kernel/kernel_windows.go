package kernel

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// Signals that Windows has not. Nothing sends or receives them here.
const (
	SIGSTOP = syscall.Signal(19)
	SIGCONT = syscall.Signal(18)
	SIGXFSZ = syscall.Signal(25)
)

// Lock locks a file without waiting, until the file is closed. ErrLocked: another process
// has the lock. A lock keeps others from reading what is locked, so that a byte is locked
// which no file has.
func Lock(file *os.File) error {
	at := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrLocked
	}
	return err
}

// LockFolder locks nothing: Windows has no lock of a folder. Two processes that write into
// one folder are not kept apart. The file stands for the lock that others close.
func LockFolder(dir string) (*os.File, error) {
	info, err := os.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "lock", Path: dir, Err: syscall.ENOTDIR}
	}
	return os.Open(os.DevNull)
}

// IsOwn returns false: whose a file is cannot be told by its FileInfo.
func IsOwn(fs.FileInfo) bool { return false }

// Kill ends a process, whatever the signal.
func Kill(pid int, _ syscall.Signal) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// KillGroup ends a process. What the process has started is left to end by itself.
func KillGroup(pid int) error { return Kill(pid, syscall.SIGKILL) }

// OwnGroup lets Ctrl-C reach this process and not the command.
func OwnGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// OwnSession is OwnGroup.
func OwnSession() *syscall.SysProcAttr { return OwnGroup() }

// SetUser refuses: Windows has no numbers of users.
func SetUser(*exec.Cmd, uint32, uint32) error { return Require("running a command as a user") }

// OpenFiles returns nothing: Windows has no such limit.
func OpenFiles() Limit { return Limit{} }

// Processes returns nothing: Windows has no such limit.
func Processes() Limit { return Limit{} }

// Niceness returns nothing: Windows has no such limit.
func Niceness() Limit { return Limit{} }

// Disk returns what the file system of a path has.
func Disk(path string) (DiskSpace, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return DiskSpace{}, err
	}
	var s DiskSpace
	return s, windows.GetDiskFreeSpaceEx(name, &s.Free, nil, nil)
}

// OwnCPU returns the CPU time of this process, in all of its threads.
func OwnCPU() (time.Duration, error) {
	var created, ended, kernel, user windows.Filetime
	if err := windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user); err != nil {
		return 0, err
	}
	ticks := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return time.Duration(100 * (ticks(kernel) + ticks(user))), nil
}

// Release returns an empty text.
func Release() string { return "" }

// SyncData writes a file to the disk.
func SyncData(file *os.File) error { return file.Sync() }

// DropPages does nothing.
func DropPages(_, _ uintptr) {}

// SocketPair refuses: a child of Windows is given no socket.
func SocketPair() (net.Conn, *os.File, error) { return nil, nil, Require("a subject in this test") }
