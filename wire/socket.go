package wire

import "net"

// socket reads from a connection in large pieces, below TLS, which asks for
// small ones.
type socket struct {
	net.Conn
	idle func() // called before it waits for the network; nil: nothing
	buf  []byte // read and not yet taken
	room [readSize]byte
}

// readSize is how much is read at once.
const readSize = 32 << 10

// Read gives what is there, and waits only when nothing is.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.buf) == 0 {
		if s.idle != nil {
			s.idle()
		}
		n, err := s.Conn.Read(s.room[:])
		if n == 0 {
			return 0, err
		}
		s.buf = s.room[:n]
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	return n, nil
}
