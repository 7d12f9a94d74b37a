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
	"github.com/windtunnel/windtunnel/internal/repotest"
)

type content struct{ *strings.Reader }

func (content) Close() error { return nil }

func pack(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var out bytes.Buffer
	repotest.NoError(t, archive.Write(&out, slices.Sorted(maps.Keys(files)), func(name string) (io.ReadSeekCloser, error) {
		return content{strings.NewReader(files[name])}, nil
	}))
	return out.Bytes()
}

func open(t testing.TB, raw []byte) (*archive.Archive, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.wtb")
	repotest.NoError(t, os.WriteFile(path, raw, 0o600))
	a, err := archive.Open(path)
	if err == nil {
		t.Cleanup(func() { _ = a.Close() })
	}
	return a, err
}

func TestRoundTrip(t *testing.T) {
	files := map[string]string{"a": "", "b/c.json": "{}\n", "b/d=1_2.wt": strings.Repeat("x", 100_000)}
	raw := pack(t, files)
	a := repotest.Must(open(t, raw))(t)
	folder := record.Dir(t.TempDir())
	repotest.NoError(t, a.Unpack(folder))
	z := repotest.Must(zip.NewReader(bytes.NewReader(raw), int64(len(raw))))(t)
	for i, name := range slices.Sorted(maps.Keys(files)) {
		got := repotest.Must(folder.Read(name))(t)
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
		repotest.NoError(t, w.Close())
		return out.Bytes()
	}
	stored := func(w *zip.Writer, name, text string) {
		f := repotest.Must(w.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store}))(t)
		repotest.Must(io.WriteString(f, text))(t)
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
	repotest.NoError(t, os.Symlink("/dev/zero", link))
	if _, err := archive.Open(link); !errors.Is(err, record.ErrNotFile) {
		t.Errorf("a link: %v", err)
	}
}

// TestUnpackChanged changes the file between the two readings.
func TestUnpackChanged(t *testing.T) {
	raw := pack(t, map[string]string{"a": "x"})
	path := filepath.Join(t.TempDir(), "x.wtb")
	repotest.NoError(t, os.WriteFile(path, raw, 0o600))
	a := repotest.Must(archive.Open(path))(t)
	defer a.Close()
	raw[31] = 'y'
	repotest.NoError(t, os.WriteFile(path, raw, 0o600))
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
			content := repotest.Must(a.Read(name))(t)
			files[name] = string(content)
		}
		if !bytes.Equal(pack(t, files), raw) {
			t.Error("the files packed again give other bytes")
		}
	})
}
