//go:build !linux

package kubelet

import (
	"syscall"

	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/stream"
)

func openTerminal() (*terminal, error) { return nil, kernel.Require("a terminal for exec") }

func (*terminal) resize(stream.Size) {}

func leadSession(*syscall.SysProcAttr) {}
