package proxy

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes one goroutine at a time of its own choice. It is a timer of the
// kernel's, since those of Go's runtime are a millisecond late on an idle
// machine: their thread sleeps in epoll, which counts in milliseconds.
type alarm struct {
	bytes [8]byte // what a read of the timer returns

	mu      sync.Mutex
	fd      int
	file    *os.File
	stopped bool
}

// waitFor returns after d, or with an error after stop.
func (a *alarm) waitFor(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if err := a.openTimer(); err != nil {
		return err
	}
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		return fmt.Errorf("set timer: %w", err)
	}
	if _, err := a.file.Read(a.bytes[:]); err != nil {
		return fmt.Errorf("wait for timer: %w", err)
	}
	return nil
}

// openTimer makes the timer at its first use: most connections are never delayed.
func (a *alarm) openTimer() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return os.ErrDeadlineExceeded
	}
	if a.file != nil {
		return nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("make timer: %w", err)
	}
	a.fd, a.file = fd, os.NewFile(uintptr(fd), "timer")
	return nil
}

// stop ends wait, now and for good. It may be called from any goroutine.
func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.file != nil {
		_ = a.file.SetReadDeadline(time.Unix(1, 0)) // a timer can have one
	}
}

// close frees the timer; only the goroutine that waits may call it.
func (a *alarm) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.stopped = true
	if a.file != nil {
		_ = a.file.Close() // nothing was written
		a.file = nil
	}
}
