//go:build !linux

package process

import (
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// Start refuses before any of these is called.

func childAttributes() *syscall.SysProcAttr { return kernel.OwnGroup() }

func awaitExit(int) {}

func (*Cgroup) enterForChild(*syscall.SysProcAttr) (leave func(), err error) {
	return nil, kernel.Require("a control group")
}

func cpuTime(int) time.Duration { return 0 }

// Prefer returns false: a process goes before others on Linux only.
func Prefer() bool { return false }

func asTheParent() {}
