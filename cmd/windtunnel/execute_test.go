package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// TestSignalsOfOneMomentAreOneWish plays signals at times, the first of which is
// announced after a while.
func TestSignalsOfOneMomentAreOneWish(t *testing.T) {
	const announcing = 300 * time.Millisecond
	for name, tt := range map[string]struct {
		at   []time.Duration
		want []wish
	}{
		"one":                       {[]time.Duration{0}, []wish{wishToStop}},
		"timeout: child and group":  {[]time.Duration{0, 310 * time.Millisecond}, []wish{wishToStop, wishHeard}},
		"before a second is over":   {[]time.Duration{0, 1299 * time.Millisecond}, []wish{wishToStop, wishHeard}},
		"a second after it is told": {[]time.Duration{0, 1300 * time.Millisecond}, []wish{wishToStop, wishToEnd}},
		"an echo, then a wish":      {[]time.Duration{0, 400 * time.Millisecond, 2 * time.Second}, []wish{wishToStop, wishHeard, wishToEnd}},
		"late":                      {[]time.Duration{time.Hour, 2 * time.Hour}, []wish{wishToStop, wishToEnd}},
	} {
		t.Run(name, func(t *testing.T) {
			var w wishes
			for i, at := range tt.at {
				got := w.nextWish(clock.Time(at))
				if got != tt.want[i] {
					t.Errorf("signal %d at %v asks for %d, want %d", i, at, got, tt.want[i])
				}
				if got == wishToStop {
					w.setAnnounced(clock.Time(at + announcing))
				}
			}
		})
	}
}

// TestSignalEndsVerb signals a process whose verb does not listen: it reads its input, as
// much of which was taken as no pipe holds.
func TestSignalEndsVerb(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		verb := exec.CommandContext(t.Context(), "windtunnel", "validate", "-")
		in, err := verb.StdinPipe()
		if err == nil {
			err = verb.Start()
		}
		if err == nil {
			_, err = io.WriteString(in, strings.Repeat("# \n", 1<<18))
		}
		if err == nil {
			err = verb.Process.Signal(s)
		}
		repotest.NoError(t, err)
		_ = verb.Wait()
		if status, ok := verb.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != s {
			t.Errorf("%v: it ended with %v", s, verb.ProcessState)
		}
	}
}

// TestTwoSignalsAtOnceInterruptOnce sends what timeout sends, and later what a person does.
func TestTwoSignalsAtOnceInterruptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		signals, ended := make(chan os.Signal, 2), false
		env := &environment{stderr: &said, listen: func() <-chan os.Signal { return signals }}
		ctx, cancel := env.interruptibleContext(t.Context(), "stopping", func() { ended = true })
		defer cancel()
		signals <- os.Interrupt
		signals <- os.Interrupt
		synctest.Wait()
		if ctx.Err() == nil || ended || said.String() != "stopping\n" {
			t.Fatalf("two signals at once: stopped %v, ended %v, said %q", ctx.Err(), ended, said.String())
		}
		time.Sleep(oneWish)
		signals <- os.Interrupt
		synctest.Wait()
		if !ended {
			t.Error("a second signal later does not end it")
		}
	})
}
