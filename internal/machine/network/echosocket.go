package network

import (
	"crypto/subtle"
	"encoding/binary"
	"net/netip"
	"os"
	"time"

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

// echoServer sends datagrams back to where they came from.
type echoServer struct {
	at    netip.AddrPort
	token []byte // that a datagram shows behind its number, or it is nobody's; empty: none is asked for
	fd    int
	quit  chan struct{}
	done  guard.Group
}

// hasToken tells whether a datagram shows the token.
func (s *echoServer) hasToken(packet []byte) bool {
	if len(s.token) == 0 {
		return true
	}
	return len(packet) >= echoHead+len(s.token) && subtle.ConstantTimeCompare(packet[echoHead:][:len(s.token)], s.token) == 1
}
