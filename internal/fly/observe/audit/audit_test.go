package audit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/clock"
	facts "github.com/windtunnel/windtunnel/internal/opinion/run"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/record/series"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestLinesOfAnyLength(t *testing.T) {
	text := "one\n\n" + strings.Repeat("x", maxLine) + "\n" + strings.Repeat("y", maxLine+1) + "\nlast\nand a part"
	for _, chunk := range []int{1 << 30, maxLine + 1, maxLine, 4096, 7} {
		var s splitter
		var got []string
		tooLong := 0
		for rest := text; rest != ""; rest = rest[min(chunk, len(rest)):] {
			s.split([]byte(rest[:min(chunk, len(rest))]), func(l []byte) { got = append(got, string(l)) }, func() { tooLong++ })
		}
		if want := []string{"one", "", strings.Repeat("x", maxLine), "last"}; !slices.Equal(got, want) || tooLong != 1 || string(s.rest) != "and a part" {
			t.Errorf("chunks of %d: %d lines, %d too long, rest %.20q", chunk, len(got), tooLong, s.rest)
		}
	}
}

// A log that is replaced, as API servers and logrotate do it, is read to its end and then
// the next from its begin; one that is emptied in its place is read from its begin.
func TestALogThatIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f := &follower{path: path}
	defer f.close()
	var got []string
	read := func() {
		t.Helper()
		repotest.NoError(t, f.readAll(make([]byte, 8), func(l []byte) { got = append(got, string(l)) }, func() { t.Error("too long") }))
	}
	write := func(flag int, text string) {
		t.Helper()
		file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|flag, 0o600)
		if err == nil {
			_, err = file.WriteString(text)
		}
		repotest.NoError(t, errors.Join(err, file.Close()))
	}
	rename := func() {
		t.Helper()
		repotest.NoError(t, os.Rename(path, path+".1"))
	}
	read() // it is not there yet
	write(os.O_APPEND, "one\ntw")
	read()
	write(os.O_APPEND, "o\nthree\n")
	rename()
	write(os.O_APPEND, "four\n")
	read()
	rename()
	read() // there is none at the moment
	write(os.O_APPEND, "five\n")
	read()
	write(os.O_TRUNC, "six\n")
	read()
	if want := "one two three four five six"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestWhatIsNoLog(t *testing.T) {
	w := repotest.Must(record.Create(filepath.Join(t.TempDir(), "r.wt")))(t)
	defer w.Close()
	var told []string
	failed := func(server string, err error) { told = append(told, fmt.Sprint(server, ": ", err)) }
	if _, err := New(w, clock.Start(), []Log{{"a", t.TempDir() + "/none", true}}, failed); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a log of others that is not there: %v", err)
	}
	r := repotest.Must(New(w, clock.Start(), []Log{{"b", t.TempDir(), false}}, failed))(t)
	defer r.Close()
	r.Sample()
	r.Sample()
	if len(told) != 1 || !strings.Contains(told[0], "b: audit log") || !strings.Contains(told[0], errNotLog.Error()) {
		t.Errorf("a folder: %q", told)
	}
}

// A count that appears in the middle of a run rose from 0, one that was there before it
// does not belong to it.
func TestCountsInTheRecords(t *testing.T) {
	folder := t.TempDir()
	log, stream := filepath.Join(folder, "audit.log"), filepath.Join(folder, "r.wt")
	get := event("ResponseComplete", "get", "a/1", "u", `,"objectRef":{"resource":"pods"}`, "200", at0, at5) + "\n"
	write := func(text string) {
		t.Helper()
		repotest.NoError(t, os.WriteFile(log, []byte(text), 0o600))
	}
	write(get + get + "{ cut")
	w := repotest.Must(record.Create(stream))(t)
	c := clock.Start()
	r := repotest.Must(New(w, c, []Log{{"own", log, false}, {"theirs", log, true}}, func(_ string, err error) { t.Error(err) }))(t)
	r.Sample()
	begin := c.Now()
	watch := event("ResponseStarted", "watch", "b/2", "v", `,"objectRef":{"resource":"pods"}`, "200", at0, at5) + "\n"
	write(get + get + "{ cut off\n" + get + watch)
	r.Sample()
	end := c.Now()
	r.Close()
	repotest.NoError(t, w.Close())
	store := series.NewStore()
	if _, err := record.Read(stream, func(s *record.Stream) record.Visitor {
		return record.Visitor{Sample: func(v record.Sample) { store.Add(s.Series, v) }}
	}); err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		name string
		want float64
	}{{facts.ClientRequests, 2}, {facts.ClientSeconds, 0.010}, {facts.ClientWatches, 2}, {facts.AuditUnreadable, 1}} {
		all := store.Named(x.name)
		if len(all) != 1 {
			t.Fatalf("%s: %d series", x.name, len(all))
		}
		if rise, ok := all[0].Increase(begin, end); !ok || rise != x.want {
			t.Errorf("%s rose by %v, %v, want %v", all[0].Key(), rise, ok, x.want)
		}
	}
	if key := store.Named(facts.ClientRequests)[0].Key(); !strings.Contains(key, `client="a",code="200",resource="pods",user="u",verb="get",version="1"`) {
		t.Error(key)
	}
}
