package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/windtunnel/windtunnel/internal/text"
)

// clearLine goes back to a terminal line's begin and empties it: what stood there
// was progress, which is drawn again soon.
const clearLine = "\r\x1b[K"

// printNotice writes lines to a person, above the line of progress.
func (env *environment) printNotice(lines ...string) {
	for _, line := range lines {
		if env.terminal {
			_ = env.rewriteLastLine(line + "\n") // there is nobody to be told
		} else {
			fmt.Fprintln(env.stderr, line)
		}
	}
}

// rewriteLastLine writes a text in place of a terminal's last line.
func (env *environment) rewriteLastLine(line string) error {
	if screen, ok := env.stderr.(*text.Screen); ok {
		return screen.Lead(clearLine, line)
	}
	_, err := io.WriteString(env.stderr, clearLine+line)
	return err
}

// newLogger writes warnings and errors, nothing per call: each as a sentence, between
// the other lines of the run.
func (env *environment) newLogger() *slog.Logger { return slog.New(sentences{env: env}) }

// sentences is a handler that writes each record as one line for a person:
// "warning: a subject did not end (subject op): why".
type sentences struct {
	env   *environment
	attrs []slog.Attr
}

func (s sentences) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (s sentences) WithAttrs(attrs []slog.Attr) slog.Handler {
	s.attrs = slices.Concat(s.attrs, attrs)
	return s
}

// WithGroup leaves the name of the group out: it is for programs.
func (s sentences) WithGroup(string) slog.Handler { return s }

func (s sentences) Handle(_ context.Context, r slog.Record) error {
	var about, why []string
	add := func(a slog.Attr) bool {
		if a.Value.Kind() == slog.KindAny && a.Value.Any() == nil {
			return true // no error
		}
		value := strings.Join(strings.Fields(a.Value.String()), " ")
		if slices.Contains([]string{"error", "err", "found", "what"}, a.Key) { // says all itself
			why = append(why, value)
		} else {
			about = append(about, a.Key+" "+value)
		}
		return true
	}
	for _, a := range s.attrs {
		add(a)
	}
	r.Attrs(add)
	line := strings.Replace(strings.ToLower(r.Level.String()), "warn", "warning", 1) + ": " + r.Message
	if len(about) > 0 {
		line += " (" + strings.Join(about, ", ") + ")"
	}
	if len(why) > 0 {
		line += ": " + strings.Join(why, "; ")
	}
	s.env.printNotice(line)
	return nil
}
