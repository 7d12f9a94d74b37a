package guard_test

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/guard"
)

// A verb that panics ends with the code of a fault, says where to report it, and has
// the trace that GOTRACEBACK asks for.
func TestPanicIsAFault(t *testing.T) {
	for level, traced := range map[string]bool{"": true, "single": true, "all": true, "none": false} {
		t.Setenv("GOTRACEBACK", level)
		var said bytes.Buffer
		var none []int
		code := guard.Verb(&said, func() int { return none[len(level)] })
		if code != guard.ExitCode || !strings.Contains(said.String(), "windtunnel has a fault: runtime error: index out of range") ||
			!strings.HasSuffix(said.String(), "please report it, with the lines above and how to repeat it: "+guard.Issues+"\n") {
			t.Errorf("%q: %d, %s", level, code, said.String())
		}
		if strings.Contains(said.String(), "guard_test.go:") != traced {
			t.Errorf("%q: %s", level, said.String())
		}
	}
	if code := guard.Verb(nil, func() int { return 2 }); code != 2 {
		t.Error(code)
	}
}

// starters are the ways to start a goroutine.
var starters = map[string]func(f func()){
	"go":    guard.Go,
	"group": func(f func()) { var g guard.Group; g.Go(f); g.Wait() },
	"handler": func(f func()) {
		s := httptest.NewServer(guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f() })))
		defer s.Close()
		if r, err := http.Get(s.URL); err == nil {
			_ = r.Body.Close()
		}
	},
}

// A goroutine that panics ends the process with the code of a fault, and with a text
// that steers no terminal; one that returns does not.
func TestPanicOfAGoroutineIsAFault(t *testing.T) {
	if how := os.Getenv("GUARD_TEST"); how != "" {
		done := make(chan struct{})
		starters[how](func() { close(done) })
		<-done
		starters[how](func() { panic("no \x1b[2Jway") })
		select {}
	}
	for how := range starters {
		c := exec.Command(os.Args[0], "-test.run", "^TestPanicOfAGoroutineIsAFault$")
		c.Env = append(os.Environ(), "GUARD_TEST="+how)
		said, err := c.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != guard.ExitCode || !strings.Contains(string(said), "windtunnel has a fault: no \ufffd[2Jway\nplease report it") ||
			!strings.Contains(string(said), "guard_test.go:") {
			t.Errorf("%s: %v: %s", how, err, said)
		}
	}
}
