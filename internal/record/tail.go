package record

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
)

// Tail reads a stream that is still being written, a bit more of it each time
// it is asked. It is for one goroutine.
type Tail struct {
	file   *os.File
	stream *Stream
	visit  Visitor
	read   int64 // up to where whole blocks were visited
	block  []byte
}

// OpenTail opens the stream at path and visits nothing yet. An error wraps
// ErrNotRecords where the file does not begin as a stream does: one that was
// made a moment ago may not yet.
func OpenTail(path string, visit func(*Stream) Visitor) (*Tail, error) {
	dir, name := SplitFile(path)
	return dir.OpenTail(name, visit)
}

// OpenTail opens a stream of the folder.
func (d Dir) OpenTail(name string, visit func(*Stream) Visitor) (*Tail, error) {
	path := d.File(name)
	file, err := d.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open record stream: %w", err)
	}
	s := &Stream{}
	if s.Format, err = readHeader(file, path); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &Tail{file: file, stream: s, visit: visit(s), read: int64(len(streamHeader))}, nil
}

// Next visits every record of the blocks that have been written whole since the
// last call, and says whether there were any. After an error there is no more.
func (t *Tail) Next() (bool, error) {
	from := t.read
	if _, err := t.file.Seek(from, io.SeekStart); err != nil {
		return false, fmt.Errorf("read record stream: %w", err)
	}
	info, err := t.file.Stat()
	if err != nil {
		return false, fmt.Errorf("read record stream: %w", err)
	}
	in := bufio.NewReaderSize(t.file, 1<<16)
	for {
		t.block, err = nextBlock(in, t.block, info.Size()-t.read)
		if errors.Is(err, io.EOF) || errors.Is(err, errTorn) {
			return t.read > from, nil // the rest is being written
		}
		if err != nil {
			return t.read > from, fmt.Errorf("read record stream: %w", err)
		}
		if err := t.stream.decodeBlock(t.block, t.visit); err != nil {
			return t.read > from, fmt.Errorf("block at byte %d: %w", t.read, err)
		}
		t.read += int64(len(t.block)) + blockHead
	}
}

// Stream is what has been read so far.
func (t *Tail) Stream() *Stream { return t.stream }

// Close closes the file. It may be called twice.
func (t *Tail) Close() error {
	if err := t.file.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close record stream: %w", err)
	}
	return nil
}
