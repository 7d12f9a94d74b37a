package main

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/windtunnel/windtunnel/internal/fly/flight"
)

// TestWarningsBetweenLinesOfProgress has a warning come while progress is drawn: it is
// a sentence on a line of its own, with the terminal's line cleared before it.
func TestWarningsBetweenLinesOfProgress(t *testing.T) {
	show := func(terminal bool) string {
		out := &bytes.Buffer{}
		env := &environment{stderr: out, terminal: terminal}
		shown, log := newProgress(env), env.newLogger()
		shown.showStatus(flight.Status{Step: "fill", Index: 1, Of: 2, Left: -1})
		log.Info("nothing for a person")
		log.Warn("the plane is not clean", slog.String("found", "3 pods are\nterminating"))
		log.With("subject", "op").WithGroup("g").Error("a subject did not end", slog.Any("error", errors.New("killed")))
		log.Warn("a watch ended", slog.Any("error", error(nil)))
		env.printNotice(`x.yaml:3: "lives" is now called "lifecycles"`)
		shown.showStatus(flight.Status{Step: "rest", Index: 2, Of: 2, Left: -1})
		shown.clearLine()
		return out.String()
	}
	const clear = "\r\x1b[K"
	if got, want := show(true), clear+"0:00 [1/2] fill"+clear+"warning: the plane is not clean: 3 pods are terminating\n"+
		clear+"error: a subject did not end (subject op): killed\n"+clear+"warning: a watch ended\n"+clear+"x.yaml:3: \"lives\" is now called \"lifecycles\"\n"+clear+"0:00 [2/2] rest"+clear; got != want {
		t.Errorf("on a terminal:\n%q\nwant\n%q", got, want)
	}
	if got, want := show(false), "0:00 [1/2] fill\nwarning: the plane is not clean: 3 pods are terminating\n"+
		"error: a subject did not end (subject op): killed\nwarning: a watch ended\nx.yaml:3: \"lives\" is now called \"lifecycles\"\n0:00 [2/2] rest\n"; got != want {
		t.Errorf("elsewhere:\n%q\nwant\n%q", got, want)
	}
}
