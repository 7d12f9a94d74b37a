package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/text"
)

// What a server or a run directory says reaches a terminal as letters only.
func TestErrorsSteerNoTerminal(t *testing.T) {
	var said bytes.Buffer
	env := &environment{stdout: &said, stderr: text.NewScreen(&said)}
	if code := executeVerb(t.Context(), env, []string{"judge", "no\x1b]0;title\a/such\r\x1b[2Jrun"}); code != exitFault {
		t.Error(code)
	}
	if got := said.String(); strings.ContainsAny(got, "\x1b\a\r") || !strings.Contains(got, "\ufffd]0;title\ufffd/such\ufffd\ufffd[2Jrun") {
		t.Errorf("%q", got)
	}
}
