package wire

import (
	"golang.org/x/sys/unix"
)

// Traffic is what went over one connection, as the kernel counts it: with TLS
// and HTTP/2's own frames, without the headers of TCP.
type Traffic struct {
	Connection     int    // its place among the client's; a connection that was lost is followed by another in its place
	Sent, Received uint64 // bytes
}

// Traffic returns what went over each connection that there is now. Bytes that
// the other side has not acknowledged yet are not among those sent.
func (c *Client) Traffic() []Traffic {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []Traffic
	for i, k := range c.conns {
		if k == nil || k.in.raw.conn == nil {
			continue
		}
		var info *unix.TCPInfo
		var err error
		if k.in.raw.conn.Control(func(fd uintptr) { info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) }) == nil && err == nil {
			out = append(out, Traffic{i, info.Bytes_acked, info.Bytes_received})
		}
	}
	return out
}
