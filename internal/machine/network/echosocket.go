package network

import (
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/guard"
)

const (
	icmpHead  = 8 // bytes: type, code, checksum, id, sequence number (RFC 792, RFC 4443)
	shortWait = 50 * time.Millisecond
)

// echoSocket is how an echo travels: by UDP, ICMP or ICMPv6.
type echoSocket struct {
	icmp, six bool
	id        uint16 // of our ICMP echoes among those of others
}

func newWay(icmp bool, to netip.Addr) echoSocket {
	return echoSocket{icmp, to.Is6(), uint16(os.Getpid())}
}

// encodeEcho writes an echo with a number; room has icmpHead bytes more than the content.
func (w echoSocket) encodeEcho(number uint64, room []byte) []byte {
	binary.BigEndian.PutUint64(room[icmpHead:], number)
	if !w.icmp {
		return room[icmpHead:]
	}
	room[0], room[1], room[2], room[3] = icmpRequest, 0, 0, 0
	binary.BigEndian.PutUint16(room[4:], w.id)
	binary.BigEndian.PutUint16(room[6:], uint16(number))
	if w.six {
		room[0] = icmp6Request // the kernel writes the checksum
	} else {
		binary.BigEndian.PutUint16(room[2:], internetChecksum(room))
	}
	return room
}

// The types of ICMP messages.
const (
	icmpRequest  = 8
	icmpReply    = 0
	icmp6Request = 128
	icmp6Reply   = 129
)

// decodeEcho reads an answer; false where a packet is none.
func (w echoSocket) decodeEcho(packet []byte) (uint64, bool) {
	if w.icmp {
		reply := byte(icmp6Reply)
		if !w.six {
			reply = icmpReply
			if len(packet) == 0 || int(packet[0]&15)*4 > len(packet) {
				return 0, false
			}
			packet = packet[int(packet[0]&15)*4:] // a raw socket has the IPv4 header, too
		}
		if len(packet) < icmpHead || packet[0] != reply || binary.BigEndian.Uint16(packet[4:]) != w.id {
			return 0, false
		}
		packet = packet[icmpHead:]
	}
	if len(packet) < echoHead {
		return 0, false
	}
	return binary.BigEndian.Uint64(packet), true
}

// internetChecksum is that of RFC 1071.
func internetChecksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

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

// echoServer sends datagrams back to where they came from.
type echoServer struct {
	at    netip.AddrPort
	token []byte // that a datagram shows behind its number, or it is nobody's; empty: none is asked for
	fd    int
	quit  chan struct{}
	done  guard.Group
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

// hasToken tells whether a datagram shows the token.
func (s *echoServer) hasToken(packet []byte) bool {
	if len(s.token) == 0 {
		return true
	}
	return len(packet) >= echoHead+len(s.token) && subtle.ConstantTimeCompare(packet[echoHead:][:len(s.token)], s.token) == 1
}

func (s *echoServer) end() {
	close(s.quit)
	s.done.Wait()
	_ = unix.Close(s.fd)
}
