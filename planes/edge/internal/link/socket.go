package link

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// waitError says that there is nothing to read now. crypto/tls lets a connection
// live on after an error that is temporary.

type waitError struct{}

func (waitError) Error() string   { return "nothing to read yet" }
func (waitError) Timeout() bool   { return true }
func (waitError) Temporary() bool { return true }

// ErrSlow says that a peer did not take what it was sent in time.
var ErrSlow = errors.New("peer does not read")

// socket is a connection's file descriptor without package net's 400 bytes
// around it. It is closed when nobody uses it any more.
type socket struct {
	fd      int
	state   atomic.Int32 // users, and closedBit
	drained bool         // the last read took all that there was
	writeBy time.Duration
}

const closedBit = 1 << 30

func (s *socket) acquire() bool {
	for {
		n := s.state.Load()
		if n&closedBit != 0 {
			return false
		}
		if s.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (s *socket) release() {
	if s.state.Add(-1) == closedBit {
		_ = unix.Close(s.fd) // nothing can be done about it
	}
}

// close ends the connection; a reader or writer under way gets an error.
func (s *socket) close() bool {
	if !s.acquire() {
		return false
	}
	defer s.release()
	for {
		n := s.state.Load()
		if n&closedBit != 0 {
			return false
		}
		if s.state.CompareAndSwap(n, n|closedBit) {
			_ = unix.Shutdown(s.fd, unix.SHUT_RDWR) // it may have been by the peer
			return true
		}
	}
}

// Read reads what there is; waitError where there is nothing.
func (s *socket) Read(b []byte) (int, error) {
	if s.drained {
		s.drained = false
		return 0, waitError{}
	}
	if !s.acquire() {
		return 0, net.ErrClosed
	}
	defer s.release()
	for {
		n, err := unix.Read(s.fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return 0, waitError{}
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0:
			return 0, io.EOF
		}
		s.drained = n < len(b)
		return n, nil
	}
}

// Write writes all of b, waiting for the peer to take it: for the longest of the
// socket's time, or without end where that is 0. A socket is full so rarely that
// looking again after a while is cheaper than to wait for it in the kernel.
func (s *socket) Write(b []byte) (int, error) {
	if !s.acquire() {
		return 0, net.ErrClosed
	}
	defer s.release()
	done, pause, waited := 0, time.Millisecond, time.Duration(0)
	for done < len(b) {
		n, err := unix.Write(s.fd, b[done:])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if s.writeBy > 0 && waited >= s.writeBy {
				return done, ErrSlow
			}
			if s.state.Load()&closedBit != 0 {
				return done, net.ErrClosed
			}
			time.Sleep(pause)
			waited += pause
			pause = min(2*pause, 50*time.Millisecond)
		case err != nil:
			return done, fmt.Errorf("write: %w", err)
		default:
			done, pause, waited = done+n, time.Millisecond, 0
		}
	}
	return done, nil
}

// detachSocket takes a connection's descriptor out of package net and closes the rest.
func detachSocket(c *net.TCPConn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("take the socket: %w", err)
	}
	fd, dup := -1, error(nil)
	if err := raw.Control(func(own uintptr) { fd, dup = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); err != nil || dup != nil {
		return 0, fmt.Errorf("take the socket: %w", errors.Join(err, dup))
	}
	if err := c.Close(); err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}
