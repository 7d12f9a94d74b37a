//go:build !linux

package proxy

import (
	"os"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// An emulated link needs a timer and a reserved port of Linux: reservePort refuses before an
// alarm is set.
type alarm struct{}

func (*alarm) waitFor(time.Duration) error { return os.ErrDeadlineExceeded }

func (*alarm) stop() {}

func (*alarm) close() {}

type port struct{ address string }

func reservePort() (*port, error) { return nil, kernel.Require("an emulated link") }

func (*port) close() error { return nil }
