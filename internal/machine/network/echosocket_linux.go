package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// openSocket opens a socket that sends to at, and has the kernel stamp what it receives.
func (w echoSocket) openSocket(from End, at netip.AddrPort) (fd int, err error) {
	family, kind, protocol := unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP
	if w.six {
		family = unix.AF_INET6
	}
	if w.icmp {
		kind, protocol = unix.SOCK_RAW, unix.IPPROTO_ICMP
		if w.six {
			protocol = unix.IPPROTO_ICMPV6
		}
	}
	err = from.Namespace.Do(func() error {
		if fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol); err != nil {
			return fmt.Errorf("%w: open a socket for echoes: %w", ErrNetwork, err)
		}
		if err := prepareSocket(fd, from.Address, at); err != nil {
			return errors.Join(fmt.Errorf("%w: %v to %v: %w", ErrNetwork, from.Address, at, err), unix.Close(fd))
		}
		return nil
	})
	return fd, err
}

// prepareSocket binds a socket, connects it, and sets how it receives.
func prepareSocket(fd int, from netip.Addr, to netip.AddrPort) error {
	if from.IsValid() {
		if err := unix.Bind(fd, socketAddress(netip.AddrPortFrom(from, 0))); err != nil {
			return err
		}
	}
	if to.IsValid() {
		if err := unix.Connect(fd, socketAddress(to)); err != nil {
			return err
		}
	}
	wait := unix.NsecToTimeval(shortWait.Nanoseconds())
	return errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait))
}

func socketAddress(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// receivePacket waits for a packet, at most shortWait, and returns when the kernel had it;
// the zero time where the kernel does not say.
func receivePacket(fd int, packet, control []byte) (n int, stamped time.Time, err error) {
	n, c, _, _, err := unix.Recvmsg(fd, packet, control, 0)
	if err != nil {
		return 0, time.Time{}, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:c])
	if err != nil {
		return n, time.Time{}, nil
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS && len(m.Data) >= 16 {
			stamped = time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return n, stamped, nil
}

// isPacketLoss says whether a datagram that could not be sent is lost rather than the
// sender at fault: the path may be cut, which is what some want to measure.
func isPacketLoss(err error) bool {
	for _, e := range []error{unix.ECONNREFUSED, unix.ENOBUFS, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN, unix.EAGAIN, unix.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// serveEchoes starts a server at an end, at a port of the system's choice.
func serveEchoes(at End, token []byte) (*echoServer, error) {
	s := &echoServer{token: token, quit: make(chan struct{})}
	family := unix.AF_INET
	if at.Address.Is6() {
		family = unix.AF_INET6
	}
	err := at.Namespace.Do(func() (err error) {
		if s.fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP); err != nil {
			return fmt.Errorf("%w: open a socket for an echo server: %w", ErrNetwork, err)
		}
		if err := prepareSocket(s.fd, at.bindAddress(), netip.AddrPort{}); err != nil {
			return errors.Join(fmt.Errorf("%w: echo server at %v: %w", ErrNetwork, at.bindAddress(), err), unix.Close(s.fd))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.at = netip.AddrPortFrom(at.Address, localPort(s.fd))
	s.done.Go(s.run)
	return s, nil
}

func localPort(fd int) uint16 {
	a, err := unix.Getsockname(fd)
	if err != nil {
		return 0
	}
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		return uint16(a.Port)
	case *unix.SockaddrInet6:
		return uint16(a.Port)
	}
	return 0
}

func (s *echoServer) run() {
	packet := make([]byte, 1<<16)
	for {
		select {
		case <-s.quit:
			return
		default:
		}
		n, from, err := unix.Recvfrom(s.fd, packet, 0)
		if err == nil && s.hasToken(packet[:n]) {
			_ = unix.Sendto(s.fd, packet[:n], 0, from) // what cannot be sent is lost, as it would be further on
		}
	}
}

func (s *echoServer) end() {
	close(s.quit)
	s.done.Wait()
	_ = unix.Close(s.fd)
}

func sendPacket(fd int, packet []byte) error { return unix.Send(fd, packet, 0) }

func closeSocket(fd int) error { return unix.Close(fd) }
