package protocol

import (
	"bytes"
	"io"
	"sync"
)

// borrowedBytes are bytes that requests read until they are taken back. A transport may read a
// request's body after it has answered, or failed: without this it would read what
// the buffer holds by then.
type borrowedBytes struct {
	mu    sync.Mutex
	bytes []byte
	taken bool
}

// openReader returns the bytes from their begin, as a request wants its body.
func (b *borrowedBytes) openReader() (io.ReadCloser, error) {
	return &borrowedReader{source: b, from: bytes.NewReader(b.bytes)}, nil
}

// takeBack ends all reading: none is under way once it has returned.
func (b *borrowedBytes) takeBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = true
}

type borrowedReader struct {
	source *borrowedBytes
	from   *bytes.Reader
}

// Read fails with io.ErrClosedPipe once the bytes were taken back.
func (b *borrowedReader) Read(into []byte) (int, error) {
	b.source.mu.Lock()
	defer b.source.mu.Unlock()
	if b.source.taken {
		return 0, io.ErrClosedPipe
	}
	return b.from.Read(into)
}

func (b *borrowedReader) Close() error { return nil }
