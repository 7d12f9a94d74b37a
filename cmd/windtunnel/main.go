// Command windtunnel is a wind tunnel for Kubernetes control planes. The control plane
// that it starts is an executable of its own, kube-plane.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/windtunnel/windtunnel/internal/guard"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/text"
)

func main() { os.Exit(dispatchProcess()) }

// dispatchProcess decides between the reaper and a verb, and returns the exit code.
func dispatchProcess() int {
	if len(os.Args) > 1 && os.Args[1] == process.ReaperArg {
		return process.ReaperMain(os.Stdin)
	}
	signal.Ignore(kernel.SIGXFSZ) // a file that grows beyond its limit is an error, not a crash with the code of unknown
	env := &environment{
		stdin: os.Stdin, asks: term.IsTerminal(int(os.Stdin.Fd())),
		stdout: openStdout(), stderr: text.NewScreen(os.Stderr), listen: sync.OnceValue(listenToSignals), args: os.Args,
		terminal: term.IsTerminal(int(os.Stderr.Fd())) && os.Getenv("CI") == "" && os.Getenv("TERM") != "dumb",
	}
	return guard.Verb(env.stderr, func() int { return executeVerb(context.Background(), env, os.Args[1:]) })
}

// listenToSignals takes the signals that ask a process to stop away from the kernel, which
// would end it.
func listenToSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}

// openStdout is a screen where people look, and takes every byte where a program reads.
func openStdout() io.Writer {
	if term.IsTerminal(int(os.Stdout.Fd())) {
		return text.NewScreen(os.Stdout)
	}
	return os.Stdout
}
