package proxy

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// port keeps a port of 127.0.0.1 for one proxy: a socket that is bound to it
// and never listens. Listeners come and go beside it, and while there is none
// the kernel refuses connections and gives the port to nobody else.
type port struct {
	fd      int
	address string
}

func reservePort() (*port, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make socket: %w", err)
	}
	p := &port{fd: fd}
	if err := p.bindPort(); err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *port) bindPort() error {
	// The listeners have this option as well; so both can have the port.
	if err := unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fmt.Errorf("reserve a port: %w", err)
	}
	if err := unix.Bind(p.fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("reserve a port: %w", err)
	}
	bound, err := unix.Getsockname(p.fd)
	if err != nil {
		return fmt.Errorf("reserve a port: %w", err)
	}
	at, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		return fmt.Errorf("reserve a port: bound to %T", bound)
	}
	p.address = net.JoinHostPort("127.0.0.1", strconv.Itoa(at.Port))
	return nil
}

func (p *port) close() error { return unix.Close(p.fd) }
