// Package guard turns panics into the end that a fault of windtunnel's own has: what
// happened, where to report it, and the exit code 3. Go's own code for a panic, 2, is
// that of an unknown verdict, which CI would take for one.
//
// A panic can be caught only by the goroutine that it befalls, so goroutines that deal
// with what comes from outside are started by Go or by a Group.
package guard

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"sync"

	"github.com/windtunnel/windtunnel/internal/text"
)

// ExitCode is that of a fault of the tool or of its input.
const ExitCode = 3

// Issues is where faults are reported.
const Issues = "https://github.com/windtunnel/windtunnel/issues"

// maxTrace is how much of the traces of all goroutines is printed.
const maxTrace = 256 << 10

// Verb calls a verb and returns its exit code, or ExitCode when it panics; that is
// told to stderr, with the trace that GOTRACEBACK asks for.
func Verb(stderr io.Writer, verb func() int) (code int) {
	defer func() {
		if why := recover(); why != nil {
			reportPanic(stderr, why)
			code = ExitCode
		}
	}()
	return verb()
}

// Go calls a function in a goroutine of its own. A panic in it ends the process: what
// the process had started is cleaned up after as when it is killed.
func Go(f func()) {
	go func() {
		defer exitOnPanic()
		f()
	}()
}

// Handler is a handler whose panics end the process, where net/http would go on and the
// request alone would be lost. http.ErrAbortHandler is passed on: it breaks a connection
// on purpose.
func Handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			switch why := recover(); why {
			case nil:
			case http.ErrAbortHandler:
				panic(why)
			default:
				reportPanic(text.NewScreen(os.Stderr), why)
				os.Exit(ExitCode)
			}
		}()
		h.ServeHTTP(w, r)
	})
}

// Group is a sync.WaitGroup whose goroutines are those of Go.
type Group struct{ sync.WaitGroup }

// Go calls a function in a goroutine that Wait waits for.
func (g *Group) Go(f func()) {
	g.WaitGroup.Go(func() {
		defer exitOnPanic()
		f()
	})
}

// exitOnPanic ends the process when it is called by a panic.
func exitOnPanic() {
	if why := recover(); why != nil {
		reportPanic(text.NewScreen(os.Stderr), why)
		os.Exit(ExitCode)
	}
}

// reportPanic says what happened. With GOTRACEBACK=crash it goes on with the panic, for a
// core dump.
func reportPanic(stderr io.Writer, why any) {
	level := os.Getenv("GOTRACEBACK")
	trace := make([]byte, maxTrace)
	trace = trace[:runtime.Stack(trace, level != "" && level != "single" && level != "0")]
	if level == "none" {
		trace = nil
	}
	fmt.Fprintf(stderr, "%s\nwindtunnel has a fault: %v\nplease report it, with the lines above and how to repeat it: %s\n", trace, why, Issues)
	if level == "crash" {
		panic(why)
	}
}
