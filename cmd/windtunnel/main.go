// Command windtunnel is a wind tunnel for Kubernetes control planes. The control plane
// that it starts is an executable of its own, kube-plane.
package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

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
	env := newEnvironment(os.Stdin, os.Stdout, os.Stderr)
	return guard.Verb(env.stderr, func() int { return executeVerb(context.Background(), env, os.Args[1:]) })
}

// newEnvironment is what a verb sees of the process that it is. What it writes for people has
// nothing that steers a terminal: names and messages are of files and servers of others.
func newEnvironment(stdin, stdout, stderr *os.File) *environment {
	return &environment{
		stdin: stdin, asks: isTerminal(stdin), alone: true,
		stdout: text.NewScreen(stdout), stderr: text.NewScreen(stderr), listen: sync.OnceValue(listenToSignals), args: os.Args,
		terminal: isTerminal(stderr) && os.Getenv("CI") == "" && os.Getenv("TERM") != "dumb",
	}
}

// listenToSignals takes the signals that ask a process to stop away from the kernel, which
// would end it.
func listenToSignals() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	return signals
}
