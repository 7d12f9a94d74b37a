package kernel

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

func isMemory(kind int64) bool { return kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC }

// Niceness returns how far this user may lower the niceness of a process (RLIMIT_NICE).
func Niceness() Limit { return limitOf(unix.RLIMIT_NICE) }

// SyncData writes the content of a file to the disk (fdatasync(2)).
func SyncData(file *os.File) error { return unix.Fdatasync(int(file.Fd())) }

// DropPages gives memory back that can be read again from its file.
func DropPages(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
}

func socketPair() ([2]int, error) {
	return syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
}
