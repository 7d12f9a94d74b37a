// Package folder reads the files that a file of a user's names, by their paths from a
// folder: ordinary files, of a bounded size, inside of it. A pipe is not waited for, a device
// is not read, and a link leads to files of the folder alone. Files that a user names on a
// command line are not its concern.
package folder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/unit"
)

var (
	// ErrNotFile says that a name stands for something else than a file.
	ErrNotFile = errors.New("not an ordinary file")
	// ErrOutside says that a name leads out of the folder.
	ErrOutside = errors.New("it leads out of the folder")
)

// Read returns a file of the folder dir that has at most so many bytes. An error begins with
// the file's name, and wraps ErrNotFile, ErrOutside or fs.ErrNotExist where it is one.
func Read(dir, name string, most int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder: %w", err)
	}
	defer root.Close() // nothing was written through it
	raw, err := ReadFrom(Of(root), name, most)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w in %s", err, dir)
	}
	return raw, err
}

// ReadFrom is Read of any folder.
func ReadFrom(dir fs.FS, name string, most int64) ([]byte, error) {
	file, err := dir.Open(filepath.ToSlash(name))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, withoutPath(err))
	}
	raw, err := io.ReadAll(io.LimitReader(file, most+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", name, withoutPath(err))
	}
	if int64(len(raw)) > most {
		return nil, fmt.Errorf("%s has more than %s", name, unit.Bytes(most).Human())
	}
	return raw, nil
}

// Of is a folder of which only ordinary files are opened.
func Of(root *os.Root) fs.FS { return ordinary{root} }

type ordinary struct{ root *os.Root }

// Open opens a file. A pipe has nobody who writes to it, or who knows that he is read from.
func (o ordinary) Open(name string) (fs.File, error) {
	file, err := o.root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is %s", ErrNotFile, KindOf(info.Mode()))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// KindOf says what there is that is no ordinary file.
func KindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a link, which is not followed"
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// withoutPath takes the path out of an error, which its reader knows by another name.
func withoutPath(err error) error {
	var p *fs.PathError
	switch {
	case !errors.As(err, &p):
		return err
	case strings.Contains(p.Err.Error(), "escapes"): // package os has no error of that name
		return ErrOutside
	}
	return p.Err
}
