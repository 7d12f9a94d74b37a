// Package logfile reads the log of a container from a file, as a kubelet does:
// lines in the format of container runtimes or in Docker's JSON, from a time or
// from the last lines on, up to a number of bytes, to its end or on and on.
//
// It writes nothing and knows no pods.
package logfile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// Limits of what is read.
const (
	MaxLine  = 1 << 20 // bytes of a line; what is beyond is left out
	MaxBytes = 1 << 30 // bytes that are written where Options say no limit and do not follow
	poll     = 200 * time.Millisecond
	block    = 64 << 10
)

// Errors that callers tell apart.
var (
	ErrFormat     = errors.New("neither the log format of container runtimes nor Docker's JSON")
	ErrNotRegular = errors.New("no regular file")
)

// Options say what of a log is wanted.
type Options struct {
	Tail       int64     // lines from the end; below 0: all
	Limit      int64     // bytes that are written; below 0: MaxBytes, none when following
	Since      time.Time // lines that are older are left out
	Follow     bool      // go on when the end is reached, until ctx ends
	Timestamps bool      // each line begins with its time
}

// All are the options of a whole log.
func All() Options { return Options{Tail: -1, Limit: -1} }

// Read writes a log to out and errOut: each line to the one that it says it is
// from; nil leaves those lines out. Lines that cannot be read are left out and
// counted. It returns at the end of what is wanted, or ctx's error; a line
// without an end is written where Follow is not set. The errors are of the file
// system, ErrFormat, ErrNotRegular, and those of the writers, wrapped.
func Read(ctx context.Context, path string, o Options, out, errOut io.Writer) (unread int64, err error) {
	r := &reader{path: path, options: o, left: o.Limit, out: out, errOut: errOut}
	if o.Limit < 0 {
		r.left = MaxBytes
		if o.Follow {
			r.left = 1<<63 - 1
		}
	}
	if err := r.openFile(); err != nil {
		return 0, fmt.Errorf("read log %s: %w", path, err)
	}
	defer func() { _ = r.file.Close() }()
	if err := r.readLines(ctx); err != nil && !errors.Is(err, errEnough) {
		return r.unread, fmt.Errorf("read log %s: %w", path, err)
	}
	return r.unread, nil
}

// errEnough says that as many bytes were written as are wanted.
var errEnough = errors.New("enough")

// reader reads one log.
type reader struct {
	path        string
	options     Options
	file        *os.File
	buf         *bufio.Reader
	line        []byte // what is read of the next line
	offset      int64  // where in the file buf is
	parse       parser
	middle      bool // the last line was a part that the next one continues
	left        int64
	unread      int64
	out, errOut io.Writer
}

func (r *reader) openFile() error {
	// Without O_NONBLOCK a pipe without a writer would hold this up for good.
	file, err := os.OpenFile(r.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return unwrapPath(err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotRegular
	}
	var start int64
	if err == nil && r.file == nil && r.options.Tail >= 0 {
		start, err = findTail(file, info.Size(), r.options.Tail)
	}
	if err == nil {
		_, err = file.Seek(start, io.SeekStart)
	}
	if err != nil {
		_ = file.Close()
		return unwrapPath(err)
	}
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file, r.buf, r.offset, r.line = file, bufio.NewReaderSize(file, block), start, r.line[:0]
	return nil
}

// unwrapPath takes operation and path out of an error, which the caller says.
func unwrapPath(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// findTail returns where the last n lines of a file begin. A last line without an
// end is a line.
func findTail(file io.ReaderAt, size, n int64) (int64, error) {
	if n == 0 {
		return size, nil
	}
	buf := make([]byte, block)
	for end := size; end > 0; {
		start := max(0, end-block)
		part := buf[:end-start]
		if _, err := file.ReadAt(part, start); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for i := len(part) - 1; i >= 0; i-- {
			if part[i] != '\n' || start+int64(i) == size-1 {
				continue
			}
			if n--; n == 0 {
				return start + int64(i) + 1, nil
			}
		}
		end = start
	}
	return 0, nil
}

// readLines reads lines until there is nothing more to read.
func (r *reader) readLines(ctx context.Context) error {
	left := r.options.Tail // lines that are wanted, where the end is known
	for lines := int64(0); r.options.Follow || left < 0 || lines < left; lines++ {
		whole, err := r.readLine()
		switch {
		case err != nil:
			return err
		case whole:
			if err := r.writeLine(); err != nil {
				return err
			}
		case !r.options.Follow:
			if len(r.line) > 0 {
				return r.writeLine()
			}
			return nil
		default:
			if err := r.awaitMore(ctx); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// readLine reads up to the end of a line; false when the file ends before it.
func (r *reader) readLine() (whole bool, err error) {
	for {
		part, err := r.buf.ReadSlice('\n')
		r.offset += int64(len(part))
		if room := MaxLine - len(r.line); room > 0 {
			r.line = append(r.line, part[:min(len(part), room)]...)
		}
		switch {
		case err == nil:
			r.line[len(r.line)-1] = '\n' // also of a line that was cut
			return true, nil
		case errors.Is(err, io.EOF):
			return false, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return false, unwrapPath(err)
		}
	}
}

// awaitMore waits until the file may have more, or another has taken its place.
func (r *reader) awaitMore(ctx context.Context) error {
	timer := time.NewTimer(poll)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	mine, err := r.file.Stat()
	if err != nil {
		return unwrapPath(err)
	}
	if mine.Size() > r.offset {
		return nil // first what is left of this one
	}
	there, err := os.Stat(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // between an old file and a new one
	}
	if err != nil {
		return unwrapPath(err)
	}
	if os.SameFile(mine, there) && mine.Size() == r.offset {
		return nil
	}
	// Another file, or the same one begun again.
	if err := r.openFile(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// writeLine writes the line that was read, and forgets it.
func (r *reader) writeLine() error {
	defer func() { r.line = r.line[:0] }()
	if r.parse == nil {
		if r.parse = parserFor(r.line); r.parse == nil {
			return fmt.Errorf("its first line is %w", ErrFormat)
		}
	}
	var m message
	if !r.parse(r.line, &m) {
		r.unread++
		return nil
	}
	begins := !r.middle
	r.middle = m.partial
	to := r.out
	if m.stderr {
		to = r.errOut
	}
	if m.at.Before(r.options.Since) || to == nil {
		return nil
	}
	text := m.text
	if r.options.Timestamps && begins {
		text = append(append(m.at.AppendFormat(nil, timeFormat), ' '), text...)
	}
	text = text[:min(int64(len(text)), r.left)]
	n, err := to.Write(text)
	r.left -= int64(n)
	if err != nil {
		return err
	}
	if r.left <= 0 {
		return errEnough
	}
	return nil
}
