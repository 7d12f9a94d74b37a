package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/flight"
)

// TestWarningsBetweenLinesOfProgress has a warning come while progress is drawn:
// a person reads a sentence on a line of its own, a program keys and values.
func TestWarningsBetweenLinesOfProgress(t *testing.T) {
	show := func(terminal bool) string {
		out := &bytes.Buffer{}
		env := &environment{stderr: out, terminal: terminal}
		shown, log := newProgress(env), env.logger()
		shown.show(flight.Status{Step: "fill", Index: 1, Of: 2, Left: -1})
		log.Info("nothing for a person")
		log.Warn("the plane is not clean", slog.String("found", "3 pods are\nterminating"))
		log.With("subject", "op").WithGroup("g").Error("a subject did not end", slog.Any("error", errors.New("killed")))
		env.notice(`x.yaml:3: "lives" is now called "lifecycles"`)
		shown.show(flight.Status{Step: "rest", Index: 2, Of: 2, Left: -1})
		shown.end()
		return out.String()
	}
	const clear = "\r\x1b[K"
	if got, want := show(true), clear+"0:00 [1/2] fill"+clear+"warning: the plane is not clean: 3 pods are terminating\n"+
		clear+"error: a subject did not end (subject op): killed\n"+clear+"x.yaml:3: \"lives\" is now called \"lifecycles\"\n"+clear+"0:00 [2/2] rest"+clear; got != want {
		t.Errorf("on a terminal:\n%q\nwant\n%q", got, want)
	}
	got := show(false)
	for _, want := range []string{"level=WARN msg=\"the plane is not clean\" found=", "level=ERROR msg=\"a subject did not end\" subject=op g.error=killed", "\nx.yaml:3: \"lives\""} {
		if !strings.Contains(got, want) || strings.ContainsAny(got, "\r\x1b") {
			t.Errorf("elsewhere: %s\nlacks %q", got, want)
		}
	}
}
