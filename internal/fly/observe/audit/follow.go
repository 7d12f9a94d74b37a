package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// maxLine is how long a line may be. An event has some 700 bytes and what the client's
// request line added.
const maxLine = 1 << 20

// splitter cuts a stream of bytes into lines.
type splitter struct {
	rest []byte // of a line whose end has not come yet
	skip bool   // the line was too long: the rest of it is dropped
}

// split calls each with the lines that end in chunk; long is called for one that was too long.
func (s *splitter) split(chunk []byte, each func([]byte), long func()) {
	for {
		i := bytes.IndexByte(chunk, '\n')
		switch {
		case i < 0 && !s.skip && len(s.rest)+len(chunk) > maxLine, i >= 0 && !s.skip && len(s.rest)+i > maxLine:
			long()
			s.rest, s.skip = nil, true
			continue
		case i < 0 && !s.skip:
			s.rest = append(s.rest, chunk...)
			return
		case i < 0:
			return
		case s.skip:
			s.skip = false
		case len(s.rest) > 0:
			each(append(s.rest, chunk[:i]...))
			s.rest = s.rest[:0]
		default:
			each(chunk[:i])
		}
		chunk = chunk[i+1:]
	}
}

// follower reads a log that another process appends to, and that is replaced by another
// file of its name when it has become long.
type follower struct {
	path string
	file *os.File
	at   int64 // bytes of the file that were read
	read int64 // bytes of all files that were read
	splitter
}

// errNotLog says that a path is not an ordinary file.
var errNotLog = errors.New("not an ordinary file")

// open opens the log where it is. It is no fault if it is not there yet.
func (f *follower) open() error {
	file, err := os.OpenFile(f.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("audit log %s: %w", f.path, errNotLog), err, file.Close())
	}
	f.file, f.at = file, 0
	return nil
}

// skipToEnd leaves out what is in the log by now.
func (f *follower) skipToEnd() error {
	if err := f.open(); err != nil {
		return err
	}
	if f.file == nil {
		return fmt.Errorf("audit log %s: %w", f.path, fs.ErrNotExist)
	}
	end, err := f.file.Seek(0, io.SeekEnd)
	f.at, f.skip = end, end > 0 && !f.endsLine(end)
	return err
}

// endsLine tells whether the byte before a position ends a line.
func (f *follower) endsLine(at int64) bool {
	var last [1]byte
	_, err := f.file.ReadAt(last[:], at-1)
	return err == nil && last[0] == '\n'
}

// readAll calls each with all whole lines that are in the log by now, those of a file that
// was replaced meanwhile first.
func (f *follower) readAll(buf []byte, each func([]byte), long func()) error {
	if f.file == nil {
		if err := f.open(); err != nil || f.file == nil {
			return err
		}
	}
	for {
		if err := f.readFile(buf, each, long); err != nil {
			return err
		}
		opened, err := f.file.Stat()
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		if opened.Size() < f.at { // it was emptied in its place
			if f.at, err = f.file.Seek(0, io.SeekStart); err != nil {
				return fmt.Errorf("audit log: %w", err)
			}
			continue
		}
		there, err := os.Stat(f.path)
		if err != nil || os.SameFile(opened, there) {
			return nil // where there is none, the next is about to be made
		}
		// Its writer closed it when it renamed it: what was written until then is read now.
		if err := f.readFile(buf, each, long); err != nil {
			return err
		}
		_ = f.file.Close()
		if f.file = nil; f.open() != nil || f.file == nil {
			return nil // it is opened the next time
		}
	}
}

// readFile reads the open file to its end.
func (f *follower) readFile(buf []byte, each func([]byte), long func()) error {
	for {
		n, err := f.file.Read(buf)
		f.at, f.read = f.at+int64(n), f.read+int64(n)
		f.split(buf[:n], each, long)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
	}
}

func (f *follower) close() {
	if f.file != nil {
		_ = f.file.Close()
		f.file = nil
	}
}
