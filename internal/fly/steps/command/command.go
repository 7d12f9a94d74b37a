// Package command runs a local command of a scenario, and says how it ended.
package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/text"
	"github.com/windtunnel/windtunnel/scenario"
)

// Find looks for a program as a command in a folder does: a relative path is the
// folder's, a name is one of PATH.
func Find(folder, name string) error {
	if filepath.Base(name) != name && !filepath.IsAbs(name) {
		folder, err := filepath.Abs(folder)
		if err != nil {
			return fmt.Errorf("find the scenario's folder: %w", err)
		}
		name = filepath.Join(folder, name)
	}
	_, err := exec.LookPath(name)
	return err
}

// Command is a local command and what it is given beside what the scenario says.
type Command struct {
	*scenario.Exec
	Folder      string
	Environment []string
	Started     func(pid int) // told when it runs
}

const (
	// outputGrace is how long a command's output may stay open after it was killed.
	outputGrace = 2 * time.Second
	// groupGrace is how long what a command has started may take to end after it, as the
	// rest of a pipe does, and groupEvery is how often that is looked at.
	groupGrace = 2 * time.Second
	groupEvery = 10 * time.Millisecond
)

// Run runs it with all that it starts in a process group of its own, which is killed
// when its time is up or ctx ends, and soon after the command has ended. A process that is
// left by then is an error: what it was to do is not done.
func (x Command) Run(ctx context.Context, out *os.File) error {
	late := fmt.Errorf("command `%s` did not end within its timeout of %v and was killed", x.Command[0], x.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Timeout), late)
	defer cancel()
	c := exec.CommandContext(ctx, x.Command[0], x.Command[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = x.Folder, out, out, outputGrace
	c.Env = slices.Concat(os.Environ(), x.Environment, text.Pairs(x.Env))
	c.SysProcAttr = kernel.OwnGroup()
	watch := clock.Start()
	var stopped atomic.Bool
	c.Cancel = func() error {
		err := kernel.KillGroup(c.Process.Pid)
		if err == nil { // else it had ended
			stopped.Store(true)
		}
		return err
	}
	if err := c.Start(); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("command `%s`: %w", x.Command[0], err)
	}
	x.Started(c.Process.Pid)
	err := c.Wait()
	took := time.Duration(watch.Now())
	left := awaitGroup(ctx, c.Process.Pid)
	_ = kernel.KillGroup(c.Process.Pid)
	switch state := c.ProcessState; {
	case stopped.Load() && (state == nil || !state.Success()):
		return context.Cause(ctx)
	case state == nil:
		return fmt.Errorf("command `%s`: %w", x.Command[0], err)
	case !state.Success() && state.Exited():
		return &exitError{x.Command[0], fmt.Sprintf("exited with code %d", state.ExitCode())}
	case !state.Success(): // it crashed, or somebody killed it: a shell answers with a code above 128
		return &exitError{x.Command[0], "was ended by a " + state.String()}
	case took > time.Duration(x.Timeout): // when it was to be killed it had ended, and late
		return fmt.Errorf("command `%s` took %v, longer than its timeout of %v", x.Command[0], took, x.Timeout)
	case len(left) > 0:
		return fmt.Errorf("command `%s` ended and left %s running in the background, killed with it: have the command wait for what it starts, or run that in a step of its own (parallel, beside: true)",
			x.Command[0], strings.Join(left, ", "))
	}
	return nil
}

// awaitGroup gives what a command has started a moment to end, and names what is left.
func awaitGroup(ctx context.Context, group int) (left []string) {
	for range groupGrace / groupEvery {
		if left = process.InGroup(group); len(left) == 0 || clock.Sleep(ctx, groupEvery) != nil {
			return left
		}
	}
	return process.InGroup(group)
}

// exitError is the answer of a command that ended by itself, and not with 0.
type exitError struct{ command, how string }

func (e *exitError) Error() string { return fmt.Sprintf("command `%s` %s", e.command, e.how) }

// Refuted says that the command was run and its answer was no.
func (e *exitError) Refuted() bool { return true }
