package record_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Nothing but ordinary files of the folder itself is read, and a pipe does not hang
// whoever reads.
func TestOnlyOrdinaryFilesAreRead(t *testing.T) {
	dir, outside := record.Dir(t.TempDir()), filepath.Join(t.TempDir(), "secret")
	check := func(err error) {
		t.Helper()
		repotest.NoError(t, err)
	}
	check(os.WriteFile(outside, []byte("secret"), 0o600))
	check(dir.Write("plain", []byte("text")))
	check(os.Symlink(outside, dir.File("link-out")))
	check(os.Symlink("plain", dir.File("link-in")))
	check(syscall.Mkfifo(dir.File("pipe"), 0o600))
	check(os.Mkdir(dir.File("folder"), 0o700))
	check(os.Symlink(filepath.Dir(outside), dir.File("linked")))
	huge, err := os.Create(dir.File("huge"))
	check(err)
	check(huge.Truncate(1 << 40)) // takes no room on the disk
	check(huge.Close())
	if raw, err := dir.Read("plain"); err != nil || string(raw) != "text" {
		t.Errorf("%q, %v", raw, err)
	}
	for name, want := range map[string]struct {
		is   error
		says string
	}{
		"link-out":          {record.ErrNotFile, "it is a link, which is not followed"},
		"link-in":           {record.ErrNotFile, "it is a link"},
		"pipe":              {record.ErrNotFile, "it is a pipe"},
		"folder":            {record.ErrNotFile, "it is a folder"},
		"linked/secret":     {record.ErrNotFile, "linked is a link"},
		"none":              {fs.ErrNotExist, string(dir) + "/none: no such file"},
		"huge":              {record.ErrTooLarge, "it has more than 8 MiB"},
		"../001":            {nil, "escapes"},
		"/etc/passwd":       {nil, "empty path"},
		"folder/../../../x": {nil, "escapes"},
	} {
		_, err := dir.Read(name)
		if err == nil || want.is != nil && !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := dir.Folder("linked"); err == nil || !strings.Contains(err.Error(), "it is a link") {
		t.Errorf("%v", err)
	}
}

// A name that a run directory holds already, of a link or of what an earlier version
// used for half-written files, leads no writing elsewhere.
func TestWritingFollowsNoLink(t *testing.T) {
	dir, outside := record.Dir(t.TempDir()), filepath.Join(t.TempDir(), "profile")
	repotest.NoError(t, os.WriteFile(outside, []byte("mine"), 0o600))
	for _, name := range []string{"verdict.json", ".verdict.json.new"} {
		repotest.NoError(t, os.Symlink(outside, dir.File(name)))
	}
	repotest.NoError(t, dir.Write("verdict.json", []byte("new")))
	if raw, _ := os.ReadFile(outside); string(raw) != "mine" {
		t.Errorf("the file outside has %q", raw)
	}
	if info, err := os.Lstat(dir.File("verdict.json")); err != nil || !info.Mode().IsRegular() || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// Many who write one file leave one content whole, and nothing else.
func TestWritersDoNotMix(t *testing.T) {
	dir := record.Dir(t.TempDir())
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 20 {
				if err := dir.Write("file", []byte(strings.Repeat(string(rune('a'+i)), 10_000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	raw, err := dir.Read("file")
	if err != nil || len(raw) != 10_000 || strings.Count(string(raw), string(raw[:1])) != len(raw) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	left, err := os.ReadDir(string(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestWhatIsNotKeptIsGone(t *testing.T) {
	dir := record.Dir(t.TempDir())
	repotest.NoError(t, dir.Write("file", []byte("old")))
	p := repotest.Must(dir.Create("file", 0o644))(t)
	if _, err := p.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(p.Close(), p.Close()); err != nil {
		t.Error(err)
	}
	raw, err := dir.Read("file")
	names, _ := os.ReadDir(string(dir))
	if string(raw) != "old" || err != nil || len(names) != 1 {
		t.Errorf("%q, %v, %v", raw, err, names)
	}
}

func TestLock(t *testing.T) {
	dir := record.Dir(t.TempDir())
	unlock := repotest.Must(dir.Lock())(t)
	if _, err := dir.Lock(); !errors.Is(err, record.ErrBusy) {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	again := repotest.Must(dir.Lock())(t)
	again()
	if _, err := record.Dir("/no/such/folder").Lock(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// An event of any length can be read again: its text is cut.
func TestLongTextsOfEventsAreCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	w.Event(record.Event{Type: record.EventDied, Name: "etcd", Text: strings.Repeat("ä", 40<<20)})
	w.Event(record.Event{Type: record.EventRunEnded})
	repotest.NoError(t, w.Close())
	var texts []string
	s, err := record.Read(path, func(*record.Stream) record.Visitor {
		return record.Visitor{Event: func(e record.Event) { texts = append(texts, e.Text) }}
	})
	if err != nil || s.CutOff || len(texts) != 2 || !strings.HasSuffix(texts[0], "ä ... (83820544 bytes more)") {
		t.Errorf("%v, %+v, %d events", err, s.CutOff, len(texts))
	}
}

// What a reader would refuse ends the stream before it, and is told.
func TestARecordBeyondABlockIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), record.StreamFile)
	w := repotest.Must(record.Create(path))(t)
	w.Event(record.Event{Type: record.EventRunBegan})
	w.Object(record.Object{Name: strings.Repeat("x", 65<<20)})
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "larger than a reader takes") {
		t.Errorf("%v", err)
	}
	s, err := record.Read(path, func(*record.Stream) record.Visitor { return record.Visitor{} })
	if err != nil || s.CutOff {
		t.Errorf("%v, cut %v", err, s.CutOff)
	}
	if !slices.Equal(s.Objects, nil) {
		t.Errorf("%d objects", len(s.Objects))
	}
}
