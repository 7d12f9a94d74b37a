package kernel

import (
	"os"
	"syscall"
)

func isMemory(int64) bool { return false }

// Niceness returns nothing: macOS has no such limit.
func Niceness() Limit { return Limit{} }

// SyncData writes a file to the disk.
func SyncData(file *os.File) error { return file.Sync() }

// DropPages does nothing.
func DropPages(_, _ uintptr) {}

func socketPair() (pair [2]int, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if pair, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0); err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	return pair, err
}
