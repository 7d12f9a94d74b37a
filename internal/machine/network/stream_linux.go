package network

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// tcpInfo asks the kernel about a connection.
func tcpInfo(c *net.TCPConn) (connection, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return connection{}, err
	}
	var info *unix.TCPInfo
	var asked error
	err = raw.Control(func(fd uintptr) {
		info, asked = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	})
	if err := errors.Join(err, asked); err != nil {
		return connection{}, err
	}
	return connection{
		segments: uint64(info.Segs_out), arrived: uint64(info.Segs_in), retransmits: uint64(info.Total_retrans),
		roundTrip: time.Duration(info.Rtt) * time.Microsecond,
	}, nil
}
