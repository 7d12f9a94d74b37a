//go:build !linux

package peers

import (
	"net"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

func socketOf(_, _ net.Addr) (uint32, error) {
	return 0, kernel.Require("to find the holder of a socket")
}
