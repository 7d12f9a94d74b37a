package rows

import (
	"errors"
	"fmt"
	"io"

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
	folder    record.Dir
	extension string
	made      []*made
	err       error
}

// made is the file of a table, and how much has been written to it.
type made struct {
	*record.Pending
	bytes int64
}

func (m *made) Write(b []byte) (int, error) {
	n, err := m.Pending.Write(b)
	m.bytes += int64(n)
	return n, err
}

// Create makes the file of a table. What goes wrong is told by Export.
func (f *Files) Create(name string) io.Writer {
	file, err := f.folder.Create(name+f.extension, 0o600)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return io.Discard
	}
	f.made = append(f.made, &made{Pending: file})
	return f.made[len(f.made)-1]
}

// Export writes all tables of the run directory at run into files of a folder,
// which it makes when it is not there. open makes a sink for each table, whose
// file is Files.Create(table's name). When it fails no file is left, but for those
// of an earlier export.
func Export(run, folder, extension string, open func(*Files) Sinks) ([]File, error) {
	dir, manifest, err := record.OpenDir(run)
	if err != nil {
		return nil, err
	}
	into, err := record.MakeFolder(folder, 0o755)
	if err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	f := &Files{Manifest: manifest, folder: into, extension: extension}
	defer f.removeUnfinished()
	sinks := open(f)
	count := map[string]int{}
	if err = f.err; err == nil {
		workers := 0
		if manifest.Workers != nil {
			workers = manifest.Workers.Count
		}
		count, err = Fill(dir.File(record.StreamFile), workers, sinks)
	}
	if err != nil {
		return nil, fmt.Errorf("export %s: %w", run, err)
	}
	var out []File
	for i, file := range f.made {
		if err := file.Keep(); err != nil {
			return nil, fmt.Errorf("export %s: %w", run, err)
		}
		out = append(out, File{Path: file.Path(), Rows: count[Tables()[i]], Bytes: file.bytes})
	}
	return out, nil
}

// removeUnfinished removes what was not finished.
func (f *Files) removeUnfinished() {
	for _, file := range f.made {
		_ = file.Close()
	}
}
