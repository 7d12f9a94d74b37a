//go:build !linux

package wire

// rawSocket is nothing here.
type rawSocket struct{}

func (s *socket) prepare() error { return nil }

// receive calls got each time that bytes have come, until got or the network
// fails, and returns that error.
func (s *socket) receive(got func() error) error { return s.receiveSlowly(got) }
