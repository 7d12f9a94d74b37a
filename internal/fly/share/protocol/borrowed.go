package protocol

import (
	"bytes"
	"io"
	"sync"
)

// lent are bytes that requests read until they are taken back. A transport may read a
// request's body after it has answered, or failed: without this it would read what
// the buffer holds by then.
type lent struct {
	mu    sync.Mutex
	bytes []byte
	taken bool
}

// open returns the bytes from their begin, as a request wants its body.
func (l *lent) open() (io.ReadCloser, error) {
	return &borrowed{of: l, from: bytes.NewReader(l.bytes)}, nil
}

// takeBack ends all reading: none is under way once it has returned.
func (l *lent) takeBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = true
}

type borrowed struct {
	of   *lent
	from *bytes.Reader
}

// Read fails with io.ErrClosedPipe once the bytes were taken back.
func (b *borrowed) Read(into []byte) (int, error) {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	if b.of.taken {
		return 0, io.ErrClosedPipe
	}
	return b.from.Read(into)
}

func (b *borrowed) Close() error { return nil }
