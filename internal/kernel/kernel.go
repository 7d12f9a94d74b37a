// Package kernel has the system calls that differ between Linux, macOS and Windows.
// windtunnel measures on Linux; what only reads or calls an API server works on all three.
// A function that only Linux has returns an error of Require elsewhere.
package kernel

import (
	"errors"
	"fmt"
	"runtime"
	"syscall"
)

// ErrOnlyLinux says that something needs Linux.
var ErrOnlyLinux = errors.New("needs Linux")

// ErrLocked says that another process holds a lock.
const ErrLocked = syscall.EWOULDBLOCK

// Require returns nil on Linux. Elsewhere it returns an error that names what needs Linux
// and what runs on this system.
func Require(what string) error { return requireOn(runtime.GOOS, what) }

func requireOn(system, what string) error {
	if system == "linux" {
		return nil
	}
	name := map[string]string{"darwin": "macOS", "windows": "Windows"}[system]
	if name == "" {
		name = system
	}
	return fmt.Errorf("%s %w; on %s, use a cluster (--kubeconfig) or a Linux machine", what, ErrOnlyLinux, name)
}

// DiskSpace is what a file system has.
type DiskSpace struct {
	Free     uint64 // bytes that this user may write
	InMemory bool   // tmpfs or ramfs
}

// Limit is a resource limit of this process; zero where it is not known.
type Limit struct{ Soft, Hard uint64 }
