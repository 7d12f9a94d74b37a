package logfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
	"github.com/windtunnel/windtunnel/internal/sim/fleet/kubelet/logfile"
)

const cri = `2026-01-02T03:04:01Z stdout F one
2026-01-02T03:04:02.5Z stderr F two
2026-01-02T03:04:03.123456789+01:00 stdout P thr
2026-01-02T03:04:03.223456789+01:00 stdout F ee
what is this
2026-01-02T03:04:05Z stdout F:more four
`

const docker = `{"log":"one\n","stream":"stdout","time":"2026-01-02T03:04:01Z"}
{"log":"tw","stream":"stdout","time":"2026-01-02T03:04:02Z"}
{"log":"o\n","stream":"stdout","time":"2026-01-02T03:04:03Z"}
`

func file(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	repotest.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestRead(t *testing.T) {
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 4, second, 0, time.UTC) }
	all := logfile.All()
	with := func(change func(*logfile.Options)) logfile.Options {
		o := all
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		text   string
		o      logfile.Options
		want   string
		unread int64
	}{
		"all":    {cri, all, "one\n!two\nthree\nfour\n", 1},
		"docker": {docker, all, "one\ntwo\n", 0},
		"empty":  {"", all, "", 0},
		"timestamps": {cri, with(func(o *logfile.Options) { o.Timestamps = true }),
			"2026-01-02T03:04:01.000000000Z one\n!2026-01-02T03:04:02.500000000Z two\n2026-01-02T03:04:03.123456789+01:00 three\n2026-01-02T03:04:05.000000000Z four\n", 1},
		"docker timestamps": {docker, with(func(o *logfile.Options) { o.Timestamps = true }), "2026-01-02T03:04:01.000000000Z one\n2026-01-02T03:04:02.000000000Z two\n", 0},
		"tail 0":            {cri, with(func(o *logfile.Options) { o.Tail = 0 }), "", 0},
		"tail 1":            {cri, with(func(o *logfile.Options) { o.Tail = 1 }), "four\n", 0},
		"tail 3":            {cri, with(func(o *logfile.Options) { o.Tail = 3 }), "ee\nfour\n", 1},
		"tail many":         {cri, with(func(o *logfile.Options) { o.Tail = 100 }), "one\n!two\nthree\nfour\n", 1},
		"limit":             {cri, with(func(o *logfile.Options) { o.Limit = 6 }), "one\n!tw", 0},
		"limit 0":           {cri, with(func(o *logfile.Options) { o.Limit = 0 }), "", 0},
		"since":             {cri, with(func(o *logfile.Options) { o.Since = at(2) }), "!two\nfour\n", 1},
		"no end":            {"2026-01-02T03:04:01Z stdout F one\n2026-01-02T03:04:01Z stdout F two", all, "one\ntwo", 0},
		"no end, tail 1":    {"2026-01-02T03:04:01Z stdout F one\n2026-01-02T03:04:01Z stdout F two", with(func(o *logfile.Options) { o.Tail = 1 }), "two", 0},
	} {
		out := &both{}
		unread, err := logfile.Read(t.Context(), file(t, c.text), c.o, out.of(""), out.of("!"))
		if err != nil || out.String() != c.want || unread != c.unread {
			t.Errorf("%s: %q, %d unread, %v; want %q, %d", name, out.String(), unread, err, c.want, c.unread)
		}
	}
	var out bytes.Buffer
	if _, err := logfile.Read(t.Context(), file(t, cri), all, &out, nil); err != nil || out.String() != "one\nthree\nfour\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// both collects two streams in the order of their writes.
type both struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *both) of(mark string) io.Writer {
	return writer(func(p []byte) (int, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(p) > 0 {
			b.buf.WriteString(mark)
		}
		return b.buf.Write(p)
	})
}

func (b *both) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestTailIsTheEnd compares the last lines with those of a whole file larger
// than a block.
func TestTailIsTheEnd(t *testing.T) {
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "2026-01-02T03:04:05Z stdout F line %d %s\n", i, strings.Repeat("x", i%50))
	}
	path := file(t, b.String())
	var whole bytes.Buffer
	if _, err := logfile.Read(t.Context(), path, logfile.All(), &whole, nil); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(whole.String(), "\n")
	for _, n := range []int{1, 2, 999, 4999, 5000, 5001} {
		o := logfile.All()
		o.Tail = int64(n)
		var out bytes.Buffer
		if _, err := logfile.Read(t.Context(), path, o, &out, nil); err != nil {
			t.Fatal(err)
		}
		if want := strings.Join(lines[max(0, len(lines)-1-n):], ""); out.String() != want {
			t.Errorf("last %d: %d bytes, want %d", n, out.Len(), len(want))
		}
	}
}

func TestLongLine(t *testing.T) {
	path := file(t, "2026-01-02T03:04:05Z stdout F "+strings.Repeat("x", 3<<20)+"\n2026-01-02T03:04:05Z stdout F next\n")
	var out bytes.Buffer
	if _, err := logfile.Read(t.Context(), path, logfile.All(), &out, nil); err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(out.String(), "\n")
	if len(first) > logfile.MaxLine || len(first) < logfile.MaxLine-100 || second != "next\n" {
		t.Errorf("%d bytes, then %q", len(first), second)
	}
}

func TestFaults(t *testing.T) {
	folder := t.TempDir()
	fifo := filepath.Join(folder, "fifo")
	repotest.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for path, want := range map[string]error{
		filepath.Join(folder, "none"): os.ErrNotExist,
		folder:                        logfile.ErrNotRegular,
		fifo:                          logfile.ErrNotRegular,
		"/dev/zero":                   logfile.ErrNotRegular,
		file(t, "plain text\n"):       logfile.ErrFormat,
	} {
		_, err := logfile.Read(t.Context(), path, logfile.All(), io.Discard, io.Discard)
		if !errors.Is(err, want) || !strings.HasPrefix(fmt.Sprint(err), "read log "+path+": ") {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
	broken := errors.New("no room")
	_, err := logfile.Read(t.Context(), file(t, cri), logfile.All(), writer(func([]byte) (int, error) { return 0, broken }), nil)
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := logfile.Read(ctx, file(t, cri), logfile.All(), io.Discard, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestFollow appends, truncates, replaces and removes the file that is followed.
func TestFollow(t *testing.T) { synctest.Test(t, testFollow) }

func testFollow(t *testing.T) {
	const line = "2026-01-02T03:04:05Z stdout F %s\n"
	path := file(t, fmt.Sprintf(line+line, "zero", "one"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, ended := &both{}, make(chan error, 1)
	o := logfile.All()
	o.Follow, o.Tail = true, 1
	go func() {
		_, err := logfile.Read(ctx, path, o, out.of(""), nil)
		ended <- err
	}()
	want := ""
	until := func(more string) {
		t.Helper()
		want += more
		repotest.Eventually(t, fmt.Sprintf("%q is written", want), func() bool { return out.String() == want }, func() any { return out.String() })
	}
	until("one\n")
	f := repotest.Must(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))(t)
	fmt.Fprintf(f, "2026-01-02T03:04:05Z stdout F t")
	time.Sleep(300 * time.Millisecond)
	fmt.Fprintf(f, "wo\n"+line, "three")
	f.Close()
	until("two\nthree\n")
	repotest.NoError(t, os.Rename(path, path+".1"))
	time.Sleep(250 * time.Millisecond)
	write := func(text string) {
		repotest.NoError(t, os.WriteFile(path, []byte(fmt.Sprintf(line, text)), 0o600))
	}
	write("a new file")
	until("a new file\n")
	write("anew")
	until("anew\n")
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(cri, int64(2))
	f.Add(docker, int64(-1))
	f.Add("\n\n", int64(1))
	f.Add("2026-01-02T03:04:01Z stdout P", int64(0))
	f.Fuzz(func(t *testing.T, text string, tail int64) {
		o := logfile.All()
		o.Tail, o.Timestamps = tail, true
		var out bytes.Buffer
		_, err := logfile.Read(t.Context(), file(t, text), o, &out, &out)
		if err != nil && !errors.Is(err, logfile.ErrFormat) {
			t.Error(err)
		}
		if out.Len() > 40*len(text) {
			t.Errorf("%d bytes of %d", out.Len(), len(text))
		}
	})
}
