package main

import (
	"archive/tar"
	"archive/zip"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A file is one of an archive or a package.
type file struct {
	name string // in the archive
	path string // on this machine
	mode os.FileMode
}

// archiveName returns the name of a target's archive.
func (b build) archiveName(t target) string {
	ending := ".tar.gz"
	if t.os == "windows" {
		ending = ".zip"
	}
	return fmt.Sprintf("windtunnel_%s_%s_%s%s", b.version(), t.os, t.arch, ending)
}

// files returns what a target's archive holds, sorted by name.
func (b build) files(t target) ([]file, error) {
	out := []file{
		{"LICENSE", filepath.Join(b.root, "LICENSE"), 0o644},
		{"README.md", filepath.Join(b.root, "README.md"), 0o644},
		{"CHANGELOG.md", filepath.Join(b.root, "CHANGELOG.md"), 0o644},
		{"THIRD_PARTY_LICENSES", b.licensesOf(t), 0o644},
	}
	for _, path := range b.executables(t) {
		out = append(out, file{filepath.Base(path), path, 0o755})
	}
	for _, folder := range []string{"completions", "man"} {
		paths, err := filepath.Glob(filepath.Join(b.work, folder, "*"))
		if err != nil || len(paths) == 0 {
			return nil, errors.Join(fmt.Errorf("%s: no files", folder), err)
		}
		for _, path := range paths {
			out = append(out, file{folder + "/" + filepath.Base(path), path, 0o644})
		}
	}
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return out, nil
}

// writeArchives writes the archive of each target. All files are in one folder.
func (b build) writeArchives(context.Context) error {
	for _, t := range b.targets {
		files, err := b.files(t)
		if err != nil {
			return err
		}
		name := b.archiveName(t)
		folder := strings.TrimSuffix(strings.TrimSuffix(name, ".zip"), ".tar.gz")
		if err := writeArchive(b.path(name), folder, files, b.time); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// writeArchive writes a .zip or .tar.gz. Every file has one time and the owner root, so that
// the same files give the same bytes.
func writeArchive(path, folder string, files []file, at time.Time) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if strings.HasSuffix(path, ".zip") {
		return writeZip(out, folder, files, at)
	}
	packed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := writeTar(packed, folder, files, at); err != nil {
		return err
	}
	return packed.Close()
}

func writeTar(to io.Writer, folder string, files []file, at time.Time) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		info, err := os.Stat(f.path)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: folder + "/" + f.name, Mode: int64(f.mode), Size: info.Size(), ModTime: at, Format: tar.FormatPAX}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if err := copyFile(w, f.path); err != nil {
			return err
		}
	}
	return w.Close()
}

func writeZip(to io.Writer, folder string, files []file, at time.Time) error {
	w := zip.NewWriter(to)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, f := range files {
		h := &zip.FileHeader{Name: folder + "/" + f.name, Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		one, err := w.CreateHeader(h)
		if err != nil {
			return err
		}
		if err := copyFile(one, f.path); err != nil {
			return err
		}
	}
	return w.Close()
}

func copyFile(to io.Writer, path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(to, from)
	return err
}
