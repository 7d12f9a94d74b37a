package main

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestLineFitsATerminal(t *testing.T) {
	s := flight.Status{Step: strings.Repeat("a long nàme ", 12), Index: 12, Of: 34, Elapsed: 100 * time.Minute, Done: 123456, Total: 234567,
		Requested: 1234, Achieved: 1233, P99: 1234 * time.Millisecond, Failed: 17, Late: 3, Left: 95 * time.Second}
	got := statusLine(s)
	if n := utf8.RuneCountInString(got); n != 79 || got != "100:00 [12/34] a long nàme … 123456/234567 1,233 of 1,234/s p99 1.23s errors 17" {
		t.Errorf("%d characters: %q", n, got)
	}
	s.Step = "fill"
	if got := statusLine(s); !strings.HasPrefix(got, "100:00 [12/34] fill 123456/234567 1,233 of 1,234/s p99 1.23s errors 17") {
		t.Errorf("%q", got)
	}
	settles := flight.Status{Step: "settle", Index: 2, Of: 3, For: "4 pods are\nterminating", Left: -1}
	if got := statusLine(settles); got != "0:00 [2/3] settle: 4 pods are terminating" {
		t.Errorf("%q", got)
	}
	settles.For = strings.Repeat("4 pods are terminating; ", 9)
	if got := statusLine(settles); utf8.RuneCountInString(got) != 79 || !strings.HasSuffix(got, "; 4 pods are …") {
		t.Errorf("%d characters: %q", utf8.RuneCountInString(got), got)
	}
	if got := statusLine(flight.Status{Step: "boot", Index: 1, Of: 3, Left: -1}); got != "0:00 [1/3] boot" {
		t.Errorf("%q", got)
	}
}

// What a step waits for is said when it is first known.
func TestProgressSaysWhatIsWaitedFor(t *testing.T) {
	out := &bytes.Buffer{}
	l := newProgress(&environment{stderr: out})
	for i, what := range []string{"", "", "4 pods are terminating", "3 pods are terminating"} {
		l.showStatus(flight.Status{Step: "settle", Index: 1, Of: 1, For: what, Elapsed: time.Duration(i) * time.Second, Left: -1})
	}
	if got, want := out.String(), "0:00 [1/1] settle\n0:02 [1/1] settle: 4 pods are terminating\n"; got != want {
		t.Errorf("%q", got)
	}
}

// A terminal has one line that is rewritten; elsewhere a line stands for each
// step, and one now and then.
func TestProgress(t *testing.T) {
	show := func(terminal bool) string {
		out := &bytes.Buffer{}
		l := newProgress(&environment{stderr: out, terminal: terminal})
		for i := range 100 {
			step := []string{"boot", "fill"}[i/50]
			l.showStatus(flight.Status{Step: step, Index: 1 + i/50, Of: 2, Elapsed: time.Duration(i) * 200 * time.Millisecond})
		}
		l.clearLine()
		return out.String()
	}
	if got := show(true); strings.Contains(got, "\n") || strings.Count(got, "\r\x1b[K") != 101 {
		t.Errorf("on a terminal: %q", got)
	}
	if got := show(false); strings.Contains(got, "\x1b") || strings.Count(got, "\n") != 2 {
		t.Errorf("elsewhere: %q", got)
	}
}

func TestColoursAreForTerminalsOnly(t *testing.T) {
	const summary = "windtunnel  small      PASS\n\npass    p50 of calls  10 ms\nFAIL    p99  2 s\n- passing remark\n"
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if got := (&environment{stdout: &bytes.Buffer{}}).colorVerdicts(summary); got != summary {
		t.Errorf("into a pipe: %q", got)
	}
	terminal := &environment{stdout: pty(t)}
	want := "windtunnel  small      \x1b[32mPASS\x1b[0m\n\n\x1b[32mpass\x1b[0m    p50 of calls  10 ms\n\x1b[31mFAIL\x1b[0m    p99  2 s\n- passing remark\n"
	if got := terminal.colorVerdicts(summary); got != want {
		t.Errorf("on a terminal: %q, want %q", got, want)
	}
	t.Setenv("NO_COLOR", "1")
	if got := terminal.colorVerdicts(summary); got != summary {
		t.Errorf("with NO_COLOR: %q", got)
	}
}

// pty returns the end of a pseudo terminal that a program writes to.
func pty(t *testing.T) *os.File {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo terminals here:", err)
	}
	t.Cleanup(func() { _ = master.Close() })
	repotest.NoError(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n := repotest.Must(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))(t)
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals here:", err)
	}
	t.Cleanup(func() { _ = slave.Close() })
	return slave
}
