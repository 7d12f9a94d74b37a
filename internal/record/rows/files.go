package rows

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/windtunnel/windtunnel/internal/record"
)

// File is a table that was written.
type File struct {
	Path  string
	Rows  int
	Bytes int64
}

// Files makes the file of each table of one export. They are finished, or
// removed, together.
type Files struct {
	Manifest  record.Manifest // of the run
	folder    string
	extension string
	made      []*os.File
	err       error
}

// Create makes the file of a table. What goes wrong is told by Export.
func (f *Files) Create(name string) io.Writer {
	file, err := os.OpenFile(filepath.Join(f.folder, name+f.extension), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return io.Discard
	}
	f.made = append(f.made, file)
	return file
}

// Export writes all tables of the run directory at run into files of a folder,
// which it makes when it is not there. open makes a sink for each table, whose
// file is Files.Create(table's name). When it fails no file is left.
func Export(run, folder, extension string, open func(*Files) Sinks) ([]File, error) {
	dir, manifest, err := record.OpenDir(run)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	f := &Files{Manifest: manifest, folder: folder, extension: extension}
	sinks := open(f)
	count := map[string]int{}
	if err = f.err; err == nil {
		count, err = Fill(dir.File(record.StreamFile), sinks)
	}
	out, failed := f.close(count)
	if err = errors.Join(err, failed); err != nil {
		return nil, errors.Join(fmt.Errorf("export %s: %w", run, err), f.remove())
	}
	return out, nil
}

// close closes the files and says what became of them.
func (f *Files) close(count map[string]int) (out []File, err error) {
	for i, file := range f.made {
		info, failed := file.Stat()
		err = errors.Join(err, failed, file.Close())
		if failed == nil {
			out = append(out, File{Path: file.Name(), Rows: count[Tables()[i]], Bytes: info.Size()})
		}
	}
	return out, err
}

func (f *Files) remove() (err error) {
	for _, file := range f.made {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}
