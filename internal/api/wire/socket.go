package wire

import (
	"errors"
	"net"
)

// socket is a connection below TLS. Its owner is told when bytes have come, and
// TLS finds them here: so one read of the network serves all records that it
// brings, and whoever decrypts them never waits.
type socket struct {
	net.Conn
	raw   rawSocket
	ready bool   // the handshake is over: Read does not wait
	buf   []byte // read and not yet taken
	room  []byte // what is read at once goes here
}

// readSize is how much is read at once, smallRead of connections of which there are
// thousands: the half of it is decrypted at once.
const (
	readSize  = 32 << 10
	smallRead = 2 << 10
)

// emptyError says that all that came was taken. TLS goes on after an error
// that says Temporary, with nothing lost.
type emptyError struct{}

func (emptyError) Error() string   { return "nothing more has come" }
func (emptyError) Timeout() bool   { return true }
func (emptyError) Temporary() bool { return true }

var _ net.Error = emptyError{}

// Read gives TLS what has come.
func (s *socket) Read(p []byte) (int, error) {
	if len(s.buf) == 0 {
		if s.ready {
			return 0, emptyError{}
		}
		n, err := s.Conn.Read(s.room)
		if n == 0 {
			return 0, err
		}
		s.buf = s.room[:n]
	}
	n := copy(p, s.buf)
	s.buf = s.buf[n:]
	return n, nil
}

// end makes whoever reads or writes return. The socket is closed by the one who
// reads, when that has happened: closing waits for readers.
func (s *socket) end() {
	if c, ok := s.Conn.(interface {
		CloseRead() error
		CloseWrite() error
	}); ok {
		_ = errors.Join(c.CloseRead(), c.CloseWrite())
		return
	}
	_ = s.Conn.Close()
}
