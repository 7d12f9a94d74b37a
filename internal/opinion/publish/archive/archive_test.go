package archive_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/opinion/publish/archive"
	"github.com/windtunnel/windtunnel/internal/record"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type content struct{ *strings.Reader }

func (content) Close() error { return nil }

func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	must(t, archive.Write(&out, slices.Sorted(maps.Keys(files)), func(name string) (io.ReadSeekCloser, error) {
		return content{strings.NewReader(files[name])}, nil
	}))
	return out.Bytes()
}

func open(t testing.TB, raw []byte) (*archive.Archive, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.wtb")
	must(t, os.WriteFile(path, raw, 0o600))
	a, err := archive.Open(path)
	if err == nil {
		t.Cleanup(func() { _ = a.Close() })
	}
	return a, err
}

func TestRoundTrip(t *testing.T) {
	files := map[string]string{"a": "", "b/c.json": "{}\n", "b/d=1_2.wt": strings.Repeat("x", 100_000)}
	raw := pack(t, files)
	a, err := open(t, raw)
	must(t, err)
	folder := record.Dir(t.TempDir())
	must(t, a.Unpack(folder))
	z, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	must(t, err)
	for i, name := range slices.Sorted(maps.Keys(files)) {
		got, err := folder.Read(name)
		must(t, err)
		if string(got) != files[name] || a.Digests()[name] != sha256.Sum256(got) || z.File[i].Name != name {
			t.Errorf("%s: %d bytes", name, len(got))
		}
	}
	if _, err := a.Read("z"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestHostile has archives that are made to do harm. All are refused before anything is
// written.
func TestHostile(t *testing.T) {
	zipped := func(edit func(w *zip.Writer)) []byte {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		edit(w)
		must(t, w.Close())
		return out.Bytes()
	}
	stored := func(w *zip.Writer, name, text string) {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		must(t, err)
		_, err = io.WriteString(f, text)
		must(t, err)
	}
	sound := pack(t, map[string]string{"a": "x", "b": "y"})
	swapped := slices.Concat(pack(t, map[string]string{"b": "y"})[:32], pack(t, map[string]string{"a": "x"})[:32], sound[64:])
	for name, raw := range map[string][]byte{
		"nothing":            nil,
		"no zip":             []byte("windtunnel records 2\n"),
		"a zip of another":   zipped(func(w *zip.Writer) { stored(w, "a", "x") }),
		"a bomb":             zipped(func(w *zip.Writer) { f, _ := w.Create("a"); _, _ = f.Write(make([]byte, 1<<24)) }),
		"an empty zip":       zipped(func(*zip.Writer) {}),
		"before it":          append([]byte("x"), sound...),
		"behind it":          append(slices.Clone(sound), 'x'),
		"cut":                sound[:len(sound)-30],
		"not in order":       swapped,
		"twice":              slices.Concat(sound[:32], sound[:32], sound[64:]),
		"a name that climbs": bytes.ReplaceAll(pack(t, map[string]string{"aaaa": "x"}), []byte("aaaa"), []byte("../a")),
		"an absolute name":   bytes.ReplaceAll(pack(t, map[string]string{"aaaa": "x"}), []byte("aaaa"), []byte("/aaa")),
		"a hidden name":      bytes.ReplaceAll(pack(t, map[string]string{"aaaa": "x"}), []byte("aaaa"), []byte(".aaa")),
		"a device":           bytes.ReplaceAll(pack(t, map[string]string{"aaaa": "x"}), []byte("aaaa"), []byte("a:\\b")),
		"a size of 4 GB":     slices.Concat(sound[:18], []byte{0xfe, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff}, sound[26:]),
	} {
		if _, err := open(t, raw); !errors.Is(err, archive.ErrForm) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"../a", "a/../b", "", "a//b", strings.Repeat("a", 300), "a b", "ä"} {
		err := archive.Write(io.Discard, []string{name}, func(string) (io.ReadSeekCloser, error) { return content{strings.NewReader("")}, nil })
		if !errors.Is(err, archive.ErrForm) {
			t.Errorf("%q is written: %v", name, err)
		}
	}
	link := filepath.Join(t.TempDir(), "link.wtb")
	must(t, os.Symlink("/dev/zero", link))
	if _, err := archive.Open(link); !errors.Is(err, record.ErrNotFile) {
		t.Errorf("a link: %v", err)
	}
}

// TestUnpackChanged changes the file between the two readings.
func TestUnpackChanged(t *testing.T) {
	raw := pack(t, map[string]string{"a": "x"})
	path := filepath.Join(t.TempDir(), "x.wtb")
	must(t, os.WriteFile(path, raw, 0o600))
	a, err := archive.Open(path)
	must(t, err)
	defer a.Close()
	raw[31] = 'y'
	must(t, os.WriteFile(path, raw, 0o600))
	if err := a.Unpack(record.Dir(t.TempDir())); !errors.Is(err, archive.ErrForm) {
		t.Error(err)
	}
}

// TestRoot has the tree of three lines by hand.
func TestRoot(t *testing.T) {
	leaf := func(s string) []byte { h := sha256.Sum256([]byte("\x00" + s + "\n")); return h[:] }
	node := func(a, b []byte) []byte { h := sha256.Sum256(slices.Concat([]byte{1}, a, b)); return h[:] }
	want := node(node(leaf("a"), leaf("b")), leaf("c"))
	if got := archive.Root("a\nb\nc\n"); fmt.Sprintf("%x", got) != fmt.Sprintf("%x", want) {
		t.Errorf("%x, want %x", got, want)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add(pack(f, map[string]string{"a": "x", "b/c": "y"}))
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := open(t, raw)
		if err != nil {
			return
		}
		files := map[string]string{}
		for name := range a.Digests() {
			content, err := a.Read(name)
			must(t, err)
			files[name] = string(content)
		}
		if !bytes.Equal(pack(t, files), raw) {
			t.Error("the files packed again give other bytes")
		}
	})
}
