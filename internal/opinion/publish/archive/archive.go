// Package archive reads and writes the container of a published bundle: a zip file of
// stored entries in one canonical form, so that the same files always give the same bytes
// and no byte can be changed unnoticed.
//
// Any zip tool opens a bundle. The reader accepts nothing but the canonical form: it makes
// each header again from what the header says and compares. It knows nothing of what the
// entries hold.
package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// Limits of an archive.
const (
	MaxEntries = 20_000
	maxName    = 200
	maxSize    = math.MaxUint32 - 1<<24 // bytes; the form has no zip64
)

// ErrForm says that a file is not an archive in canonical form.
var ErrForm = errors.New("not a bundle in canonical form")

// Begin is what each archive begins with.
const Begin = "PK\x03\x04"

// What the headers of a zip file begin with, and their sizes without the name.
const (
	localMagic, localSize   = 0x04034b50, 30
	centralMagic            = 0x02014b50
	endMagic, endSize       = 0x06054b50, 22
	zipVersion, zipFirstDay = 20, 1<<5 | 1 // the first day that zip knows: 1980-01-01
)

// safeName is the form of a name: parts that begin with a letter or a digit.
var safeName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._=-]*(/[A-Za-z0-9][A-Za-z0-9._=-]*)*$`)

// CheckName says whether an entry may have the name.
func CheckName(name string) error {
	if len(name) > maxName || !safeName.MatchString(name) {
		return fmt.Errorf("%w: entry name %.*q", ErrForm, maxName, name)
	}
	return nil
}

// Digest is the SHA-256 of an entry.
type Digest [sha256.Size]byte

// entry is one file of an archive.
type entry struct {
	name      string
	size, crc uint32
	at        int64 // where its header begins
}

// header returns the header that stands before an entry.
func (e entry) header() []byte {
	b := binary.LittleEndian.AppendUint32(nil, localMagic)
	return append(e.appendFields(b), e.name...)
}

// appendFields appends what both headers of an entry say, from the version to the lengths.
func (e entry) appendFields(b []byte) []byte {
	for _, v := range []uint16{zipVersion, 0, 0, 0, zipFirstDay} {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	for _, v := range []uint32{e.crc, e.size, e.size} {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(e.name)))
	return binary.LittleEndian.AppendUint16(b, 0)
}

// directory returns what stands behind the last entry, which ends at byte end.
func directory(entries []entry, end int64) []byte {
	var b []byte
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint32(b, centralMagic)
		b = e.appendFields(binary.LittleEndian.AppendUint16(b, zipVersion))
		b = append(b, make([]byte, 10)...) // no comment, first disk, no attributes
		b = append(binary.LittleEndian.AppendUint32(b, uint32(e.at)), e.name...)
	}
	size := len(b)
	b = binary.LittleEndian.AppendUint32(b, endMagic)
	for _, v := range []uint16{0, 0, uint16(len(entries)), uint16(len(entries))} {
		b = binary.LittleEndian.AppendUint16(b, v)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(size))
	b = binary.LittleEndian.AppendUint32(b, uint32(end))
	return binary.LittleEndian.AppendUint16(b, 0)
}

// Write writes files as an archive: those that are named, in ascending order. open opens
// one of them.
func Write(w io.Writer, names []string, open func(name string) (io.ReadSeekCloser, error)) error {
	var entries []entry
	at := int64(0)
	for _, name := range names {
		e, err := writeEntry(w, name, at, open)
		if err != nil {
			return err
		}
		if at += int64(len(e.header())) + int64(e.size); at > maxSize || len(entries) == MaxEntries {
			return fmt.Errorf("write bundle: %w: at most %s in %s", record.ErrTooLarge, unit.Bytes(maxSize).Human(), unit.Count(MaxEntries, "files"))
		}
		entries = append(entries, e)
	}
	_, err := w.Write(directory(entries, at))
	return err
}

func writeEntry(w io.Writer, name string, at int64, open func(string) (io.ReadSeekCloser, error)) (entry, error) {
	e := entry{name: name, at: at}
	if err := CheckName(name); err != nil {
		return e, err
	}
	file, err := open(name)
	if err != nil {
		return e, fmt.Errorf("write bundle: %w", err)
	}
	defer file.Close()
	sum := crc32.NewIEEE()
	n, err := io.Copy(sum, file)
	if err != nil || n > maxSize {
		return e, errors.Join(fmt.Errorf("write bundle: %s: %w", name, record.ErrTooLarge), err)
	}
	e.size, e.crc = uint32(n), sum.Sum32()
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return e, fmt.Errorf("write bundle: %w", err)
	}
	if _, err := w.Write(e.header()); err != nil {
		return e, err
	}
	_, err = io.CopyN(w, file, n)
	return e, err
}

// Archive is an archive in canonical form that is open for reading.
type Archive struct {
	file    *os.File
	entries []entry
	digests map[string]Digest
}

// Open opens the archive at path, reads it once and writes nothing. An error wraps ErrForm
// where it is not in canonical form: a name that leads out, an entry twice or not in
// order, bytes between or behind entries. Close it after use.
func Open(path string) (*Archive, error) {
	dir, name := record.SplitFile(path)
	file, err := dir.Open(name)
	if err != nil {
		return nil, fmt.Errorf("open bundle: %w", err)
	}
	info, err := file.Stat()
	if err == nil && info.Size() > maxSize {
		err = record.ErrTooLarge
	}
	a := &Archive{file: file, digests: map[string]Digest{}}
	if err == nil {
		err = a.scan(bufio.NewReaderSize(file, 1<<16), info.Size())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open bundle: %s: %w", path, err), file.Close())
	}
	return a, nil
}

// Close closes the archive.
func (a *Archive) Close() error { return a.file.Close() }

// Digests are those of the entries, by name.
func (a *Archive) Digests() map[string]Digest { return a.digests }

func (a *Archive) scan(in io.Reader, size int64) error {
	at := int64(0)
	for {
		e, more, err := readHeader(in, at, size)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if n := len(a.entries); n > 0 && a.entries[n-1].name >= e.name || n == MaxEntries {
			return fmt.Errorf("%w: entry %s is out of order, or one too many", ErrForm, e.name)
		}
		if a.digests[e.name], err = e.copyTo(io.Discard, in); err != nil {
			return err
		}
		a.entries = append(a.entries, e)
		at += localSize + int64(len(e.name)) + int64(e.size)
	}
	// readHeader has taken the first four bytes of the directory.
	rest, err := io.ReadAll(io.LimitReader(in, size-at))
	if err != nil {
		return err
	}
	if want := directory(a.entries, at); len(a.entries) == 0 || !bytes.Equal(rest, want[4:]) {
		return fmt.Errorf("%w: its directory is not that of its entries", ErrForm)
	}
	return nil
}

// copyTo copies the content of an entry and returns its digest.
func (e entry) copyTo(w io.Writer, in io.Reader) (sum Digest, err error) {
	crc, sha := crc32.NewIEEE(), sha256.New()
	if _, err := io.CopyN(io.MultiWriter(w, crc, sha), in, int64(e.size)); err != nil {
		return sum, fmt.Errorf("%w: %s: %w", ErrForm, e.name, err)
	}
	if crc.Sum32() != e.crc {
		return sum, fmt.Errorf("%w: the checksum of %s", ErrForm, e.name)
	}
	sha.Sum(sum[:0])
	return sum, nil
}

// content reads an entry.
func (a *Archive) content(e entry) io.Reader {
	return io.NewSectionReader(a.file, e.at+localSize+int64(len(e.name)), int64(e.size))
}

// Read returns an entry of at most record.MaxFile bytes.
func (a *Archive) Read(name string) ([]byte, error) {
	i := slices.IndexFunc(a.entries, func(e entry) bool { return e.name == name })
	switch {
	case i < 0:
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	case a.entries[i].size > record.MaxFile:
		return nil, fmt.Errorf("%s: %w", name, record.ErrTooLarge)
	}
	return io.ReadAll(a.content(a.entries[i]))
}

// Unpack writes the entries into a folder. An error wraps ErrForm where the file was
// changed since it was opened.
func (a *Archive) Unpack(folder record.Dir) error {
	root, err := os.OpenRoot(string(folder))
	if err != nil {
		return err
	}
	defer root.Close()
	for _, e := range a.entries {
		if err := a.unpackEntry(root, e); err != nil {
			return err
		}
	}
	return nil
}

func (a *Archive) unpackEntry(root *os.Root, e entry) error {
	if err := root.MkdirAll(path.Dir(e.name), 0o700); err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	out, err := root.OpenFile(e.name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist): // two names of one file, where cases are not told apart
		return fmt.Errorf("%w: %s is there twice", ErrForm, e.name)
	case err != nil:
		return err
	}
	sum, err := e.copyTo(out, a.content(e))
	if err == nil && sum != a.digests[e.name] {
		err = fmt.Errorf("%w: %s was changed meanwhile", ErrForm, e.name)
	}
	return errors.Join(err, out.Close())
}

// readHeader reads the header at byte at of an archive of so many bytes; more is false
// where the directory begins instead.
func readHeader(in io.Reader, at, size int64) (e entry, more bool, err error) {
	fixed := make([]byte, localSize)
	if _, err := io.ReadFull(in, fixed[:4]); err != nil {
		return e, false, fmt.Errorf("%w: it is cut off", ErrForm)
	}
	if binary.LittleEndian.Uint32(fixed) != localMagic {
		if binary.LittleEndian.Uint32(fixed) != centralMagic {
			return e, false, fmt.Errorf("%w: no entry at byte %d", ErrForm, at)
		}
		return e, false, nil
	}
	if _, err := io.ReadFull(in, fixed[4:]); err != nil {
		return e, false, fmt.Errorf("%w: it is cut off", ErrForm)
	}
	e = entry{at: at, crc: binary.LittleEndian.Uint32(fixed[14:]), size: binary.LittleEndian.Uint32(fixed[18:])}
	name := make([]byte, min(int(binary.LittleEndian.Uint16(fixed[26:])), maxName+1))
	if _, err := io.ReadFull(in, name); err != nil {
		return e, false, fmt.Errorf("%w: it is cut off", ErrForm)
	}
	e.name = string(name)
	if err := CheckName(e.name); err != nil {
		return e, false, err
	}
	if !bytes.Equal(append(fixed, name...), e.header()) || at+localSize+int64(len(name))+int64(e.size) > size-endSize {
		return e, false, fmt.Errorf("%w: the header of %s", ErrForm, e.name)
	}
	return e, true, nil
}

// Sums returns digests as the program sha256sum writes them, in the order of names.
func Sums(names []string, digests map[string]Digest) string {
	var b strings.Builder
	for _, name := range names {
		fmt.Fprintf(&b, "%x  %s\n", digests[name], name)
	}
	return b.String()
}
