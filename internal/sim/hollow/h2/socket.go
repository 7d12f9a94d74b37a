package h2

import (
	"errors"
	"net"
)

// Socket is a connection below TLS. Who reads through TLS is told before it waits for
// the network, and not before it takes records that have come already.
type Socket struct {
	net.Conn
	before func()
}

// NewSocket returns a socket, to be handed to tls.Server.
func NewSocket(c net.Conn) *Socket { return &Socket{Conn: c} }

func (s *Socket) h2() *Socket { return s }

// Read reads.
func (s *Socket) Read(p []byte) (int, error) {
	if s.before != nil {
		s.before()
	}
	return s.Conn.Read(p)
}

// CloseWrite says that nothing more will be written.
func (s *Socket) CloseWrite() error {
	half, ok := s.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Listener is one whose connections are Sockets.
type Listener struct{ net.Listener }

// Accept waits for a connection.
func (l Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return NewSocket(c), nil
}
