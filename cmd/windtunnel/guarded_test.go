package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text"
)

// A verb that panics ends with the code of a fault, says where to report it, and has
// the trace that GOTRACEBACK asks for.
func TestPanicIsAFault(t *testing.T) {
	for level, traced := range map[string]bool{"": true, "single": true, "all": true, "none": false} {
		t.Setenv("GOTRACEBACK", level)
		var said bytes.Buffer
		var none []int
		code := guarded(&said, func() int { return none[len(level)] })
		if code != exitFault || !strings.Contains(said.String(), "windtunnel has a fault: runtime error: index out of range") ||
			!strings.HasSuffix(said.String(), "please report it, with the lines above and how to repeat it: "+issues+"\n") {
			t.Errorf("%q: %d, %s", level, code, said.String())
		}
		if strings.Contains(said.String(), "guarded_test.go:") != traced {
			t.Errorf("%q: %s", level, said.String())
		}
	}
	if code := guarded(nil, func() int { return exitUnknown }); code != exitUnknown {
		t.Error(code)
	}
}

// What a server or a run directory says reaches a terminal as letters only.
func TestErrorsSteerNoTerminal(t *testing.T) {
	var said bytes.Buffer
	env := &environment{stdout: &said, stderr: text.NewScreen(&said)}
	if code := execute(t.Context(), env, []string{"judge", "no\x1b]0;title\a/such\r\x1b[2Jrun"}); code != exitFault {
		t.Error(code)
	}
	if got := said.String(); strings.ContainsAny(got, "\x1b\a\r") || !strings.Contains(got, "\ufffd]0;title\ufffd/such\ufffd\ufffd[2Jrun") {
		t.Errorf("%q", got)
	}
}
