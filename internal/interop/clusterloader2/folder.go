package clusterloader2

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	files "github.com/windtunnel/windtunnel/internal/folder"
)

// folder reads the files that a config names. They are relative to the
// config's own folder, also those that begin with a slash and those that a
// module in another folder names; ".." leads as far as one folder up, which is
// where neighbours keep the modules that they share.
type folder struct {
	root *os.Root // of the folder above
	own  string   // the config's folder inside it
}

func openFolder(dir string) (*folder, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	root, err := os.OpenRoot(filepath.Dir(abs))
	if err != nil {
		return nil, fmt.Errorf("read config: %w", err)
	}
	return &folder{root: root, own: filepath.Base(abs)}, nil
}

func (f *folder) closeRoot() { _ = f.root.Close() } // nothing was written through it

// errOutside says that a path leads out of what may be read.
var errOutside = errors.New("leads out of the folder above the config's")

// readFile returns a file's content.
func (f *folder) readFile(name string) ([]byte, error) {
	if strings.ContainsRune(name, 0) {
		return nil, errors.New("a file name has no zero byte")
	}
	local := path.Join(f.own, strings.TrimLeft(filepath.ToSlash(name), "/"))
	if !filepath.IsLocal(filepath.FromSlash(local)) {
		return nil, errOutside
	}
	file, err := files.Of(f.root).Open(local)
	if err != nil {
		return nil, withoutPath(err)
	}
	raw, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, withoutPath(err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("has more than %d bytes", maxFile)
	}
	return raw, nil
}

// withoutPath takes the path out of an error: who reads it knows it by another name.
func withoutPath(err error) error {
	var p *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errors.New("no such file")
	case errors.As(err, &p) && strings.Contains(p.Err.Error(), "escapes"):
		return errOutside
	case errors.As(err, &p):
		return p.Err
	}
	return err
}
