package wire

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"
)

// rawSocket reads and writes with system calls that the scheduler does not hear
// of: they never block, and telling it costs a change of threads each time that
// the process was at rest.
type rawSocket struct {
	conn syscall.RawConn

	out     []byte // being written
	err     error
	writing func(uintptr) bool
}

func (s *socket) prepare() error {
	c, ok := s.Conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	s.raw.conn = raw
	s.raw.writing = s.raw.write
	return nil
}

// receive calls got each time that bytes have come, until got or the network
// fails, and returns that error.
func (s *socket) receive(got func() error) error {
	if s.raw.conn == nil {
		return s.receiveSlowly(got)
	}
	var failed error
	err := s.raw.conn.Read(func(fd uintptr) bool {
		for {
			n, errno := call(syscall.SYS_READ, fd, s.room)
			switch {
			case errno == syscall.EAGAIN:
				return false
			case errno == syscall.EINTR:
				continue
			case errno != 0:
				failed = os.NewSyscallError("read", errno)
				return true
			case n == 0:
				failed = io.EOF
				return true
			}
			s.buf = s.room[:n]
			if failed = got(); failed != nil {
				return true
			}
		}
	})
	if failed != nil {
		return failed
	}
	return err
}

// Write writes all of p. TLS calls it once at a time.
func (s *socket) Write(p []byte) (int, error) {
	if s.raw.conn == nil {
		return s.Conn.Write(p)
	}
	r := &s.raw
	r.out, r.err = p, nil
	err := r.conn.Write(r.writing)
	left := len(r.out)
	r.out = nil
	if err == nil {
		err = r.err
	}
	return len(p) - left, err
}

// write writes as much as the network takes; false when it is to be waited for.
func (r *rawSocket) write(fd uintptr) bool {
	for len(r.out) > 0 {
		n, errno := call(syscall.SYS_WRITE, fd, r.out)
		switch errno {
		case 0:
			r.out = r.out[n:]
		case syscall.EAGAIN:
			return false
		case syscall.EINTR:
		default:
			r.err = os.NewSyscallError("write", errno)
			return true
		}
	}
	return true
}

// call reads or writes.
func call(number, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	return int(n), errno
}
