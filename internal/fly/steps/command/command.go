// Package command runs a local command of a scenario, and says how it ended.
package command

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
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

// outputGrace is how long a command's output may stay open after it was killed.
const outputGrace = 2 * time.Second

// Run runs it with all that it starts in a process group of its own, which is killed
// when its time is up or ctx ends.
func (x Command) Run(ctx context.Context, out *os.File) error {
	late := fmt.Errorf("command `%s` did not end within its timeout of %v and was killed", x.Command[0], x.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Timeout), late)
	defer cancel()
	c := exec.CommandContext(ctx, x.Command[0], x.Command[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = x.Folder, out, out, outputGrace
	c.Env = append(os.Environ(), x.Environment...)
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		c.Env = append(c.Env, name+"="+x.Env[name])
	}
	c.SysProcAttr = kernel.OwnGroup()
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
	_ = kernel.KillGroup(c.Process.Pid) // what it left behind
	switch state := c.ProcessState; {
	case err == nil || state != nil && state.Success(): // it had ended when it was to be killed
		return nil
	case stopped.Load():
		return context.Cause(ctx)
	case state == nil:
		return fmt.Errorf("command `%s`: %w", x.Command[0], err)
	case state.Exited():
		return &exitError{x.Command[0], fmt.Sprintf("exited with code %d", state.ExitCode())}
	default: // it crashed, or somebody killed it: a shell answers with a code above 128
		return &exitError{x.Command[0], "was ended by a " + state.String()}
	}
}

// exitError is the answer of a command that ended by itself, and not with 0.
type exitError struct{ command, how string }

func (e *exitError) Error() string { return fmt.Sprintf("command `%s` %s", e.command, e.how) }

// Refuted says that the command was run and its answer was no.
func (e *exitError) Refuted() bool { return true }
