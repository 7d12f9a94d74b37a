package record

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/folder"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// MaxFile is how many bytes a file of a run directory may have that is read as a
// whole: all but the records. A run's own are some kilobytes.
const MaxFile = 8 << 20

// Errors of the files of a folder.
var (
	ErrNotFile  = errors.New("not an ordinary file") // a link, a pipe, a folder: it is not opened
	ErrTooLarge = errors.New("too large")
	ErrBusy     = errors.New("another windtunnel is at work there")
)

// Open opens a file of the folder for reading. People send run directories
// around: nothing but an ordinary file is opened, no link is followed, and a pipe
// is not waited for.
func (d Dir) Open(name string) (*os.File, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, err
	}
	defer root.Close() // which does not close what was opened in it
	info, err := statInside(root, name)
	if err != nil {
		return nil, d.withUserPath(name, err)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, d.withUserPath(name, err)
	}
	// Something else may have been put there since the look.
	if opened, err := file.Stat(); err != nil || !os.SameFile(info, opened) {
		return nil, d.withUserPath(name, errors.Join(ErrNotFile, err, file.Close()))
	}
	return file, nil
}

// statInside says what a name stands for. An error wraps ErrNotFile where that is not
// an ordinary file in folders that are none of them a link.
func statInside(root *os.Root, name string) (fs.FileInfo, error) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		if info, err := root.Lstat(name[:i]); err != nil {
			return nil, err
		} else if !info.IsDir() {
			return nil, fmt.Errorf("%w: %s is %s", ErrNotFile, name[:i], folder.KindOf(info.Mode()))
		}
	}
	info, err := root.Lstat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%w: it is %s", ErrNotFile, folder.KindOf(info.Mode()))
	}
	return info, err
}

// withUserPath gives an error the path that the user knows.
func (d Dir) withUserPath(name string, err error) error {
	var inside *fs.PathError
	if errors.As(err, &inside) {
		return &fs.PathError{Op: "open", Path: d.File(name), Err: inside.Err}
	}
	return fmt.Errorf("%s: %w", d.File(name), err)
}

// Read returns a file of the folder. An error wraps ErrNotFile, ErrTooLarge where
// it has more than MaxFile bytes, or fs.ErrNotExist.
func (d Dir) Read(name string) ([]byte, error) {
	file, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var content bytes.Buffer
	if info, err := file.Stat(); err == nil { // grown once, not doubled from 512 bytes on
		content.Grow(int(min(info.Size(), MaxFile)) + bytes.MinRead)
	}
	_, err = content.ReadFrom(io.LimitReader(file, MaxFile+1))
	raw := content.Bytes()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", d.File(name), err)
	case len(raw) > MaxFile:
		return nil, fmt.Errorf("%s: %w: it has more than %s", d.File(name), ErrTooLarge, unit.Bytes(MaxFile).Human())
	}
	return raw, nil
}

// Stat says what a file of the folder is like; ok is false where there is no
// ordinary one.
func (d Dir) Stat(name string) (info fs.FileInfo, ok bool) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, false
	}
	defer root.Close()
	info, err = statInside(root, name)
	return info, err == nil
}

// Folder returns a folder in this one, made where it is not there yet. A link of
// that name is refused: what is written there would lie elsewhere.
func (d Dir) Folder(name string) (Dir, error) { return MakeFolder(d.File(name), 0o700) }

// MakeFolder makes a folder to write to, and those above it, unless it is there. A
// link is refused.
func MakeFolder(path string, mode fs.FileMode) (Dir, error) {
	if err := os.MkdirAll(path, mode); err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		return "", fmt.Errorf("make folder: %w", err)
	}
	if !info.IsDir() {
		return "", fmt.Errorf("make folder %s: it is %s", path, folder.KindOf(info.Mode()))
	}
	return Dir(path), nil
}

// Write replaces a file of the folder in one step, mode 0600: a reader sees the
// old or the new content, never a part, also after the machine lost its power.
func (d Dir) Write(name string, content []byte) error { return d.WriteMode(name, content, 0o600) }

// WriteMode is Write with a mode, for files that other tools read.
func (d Dir) WriteMode(name string, content []byte, mode fs.FileMode) error {
	file, err := d.Create(name, mode)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Write(content); err != nil {
		return err
	}
	return file.Keep()
}

// WriteJSON writes v as indented JSON with a final newline.
func (d Dir) WriteJSON(name string, v any) error {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return d.Write(name, append(raw, '\n'))
}

// Pending is a file that is being written under a name that nobody can guess. It
// takes the place of the file of its name, whatever that is, when it is kept.
type Pending struct {
	root      *os.Root
	file      *os.File
	tmp, name string
	path      string
}

// Create begins a file of the folder, which may be in a folder below. Close it
// after use.
func (d Dir) Create(name string, mode fs.FileMode) (*Pending, error) {
	root, err := os.OpenRoot(string(d))
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", name, err)
	}
	dir, base := path.Split(name)
	p := &Pending{root: root, name: name, tmp: dir + "." + base + "." + rand.Text()[:12] + ".new", path: d.File(name)}
	if p.file, err = root.OpenFile(p.tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("write %w", d.withUserPath(name, err)), root.Close())
	}
	return p, nil
}

// Path is where the file will be.
func (p *Pending) Path() string { return p.path }

// Write appends to the file.
func (p *Pending) Write(b []byte) (int, error) {
	n, err := p.file.Write(b)
	if err != nil {
		err = p.withUserPath(err)
	}
	return n, err
}

// Keep puts the file in its place: all of it is on the disk before it has its
// name, and the name is before Keep returns.
func (p *Pending) Keep() error {
	if !isTransient(p.name) {
		if err := p.file.Sync(); err != nil {
			return p.withUserPath(err)
		}
	}
	if err := p.file.Close(); err != nil {
		return p.withUserPath(err)
	}
	if err := p.root.Rename(p.tmp, p.name); err != nil {
		return p.withUserPath(err)
	}
	p.tmp = ""
	if isTransient(p.name) {
		return nil
	}
	folder, err := p.root.Open(path.Dir(p.name))
	if err != nil {
		return p.withUserPath(err)
	}
	if err := errors.Join(syncFolder(folder), folder.Close()); err != nil {
		return p.withUserPath(err)
	}
	return nil
}

// Close takes the file away again unless it was kept. It may be called twice.
func (p *Pending) Close() error {
	if p.root == nil {
		return nil
	}
	_ = p.file.Close() // Keep has closed it, or nobody wants it
	var err error
	if p.tmp != "" {
		err = p.root.Remove(p.tmp)
	}
	err = errors.Join(err, p.root.Close())
	p.root = nil
	return err
}

func (p *Pending) withUserPath(err error) error {
	var inside *fs.PathError
	if errors.As(err, &inside) { // it has the other name
		err = inside.Err
	}
	return fmt.Errorf("write %s: %w", p.path, err)
}

// isTransient tells files that are there only while a run is under way: nobody wants
// them after a power loss, and waiting for the disk would disturb what is measured.
func isTransient(name string) bool { return name == StatusFile || name == OwnerFile }

// syncFolder sees to it that names in a folder are on the disk. Some file systems
// cannot be asked for that.
func syncFolder(folder *os.File) error {
	if err := folder.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}

// Lock keeps other processes out of a folder that is written to by more than one
// step, until unlock or the process' end. An error wraps ErrBusy where another one
// has it.
func (d Dir) Lock() (unlock func(), err error) {
	folder, err := os.Open(string(d))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	err = kernel.Lock(folder)
	if err == nil {
		return func() { _ = folder.Close() }, nil // which ends the lock
	}
	_ = folder.Close()
	if errors.Is(err, kernel.ErrLocked) {
		return nil, fmt.Errorf("%s: %w", d, ErrBusy)
	}
	return nil, fmt.Errorf("lock %s: %w", d, err)
}

// SplitFile takes a path apart into a folder and the name of a file in it.
func SplitFile(file string) (Dir, string) {
	dir, name := filepath.Split(file)
	if dir == "" {
		dir = "."
	}
	return Dir(dir), name
}
