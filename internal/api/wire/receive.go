package wire

// receiveSlowly is receive where there is no faster way.
func (s *socket) receiveSlowly(got func() error) error {
	for {
		n, err := s.Conn.Read(s.room)
		if n > 0 {
			s.buf = s.room[:n]
			if err := got(); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}
