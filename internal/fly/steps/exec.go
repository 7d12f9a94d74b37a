package steps

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/windtunnel/windtunnel/internal/fly/workload"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// outputGrace is how long a command's output may stay open after it was killed.
const outputGrace = 2 * time.Second

// execsAtOnce is how many of a step's commands run at the same time, one for each
// member: they are processes of this machine, beside the plane.
const execsAtOnce = 8

// Exec runs a local command: in the scenario's folder, with a kubeconfig of the
// plane, its output in logs/STEP.log.
type Exec struct {
	Step string
	Spec *scenario.Exec
}

// Do runs it.
func (x Exec) Do(ctx context.Context, s *Session) error {
	kubeconfig, err := s.Plane.AdminKubeconfig()
	if err != nil {
		return err
	}
	return x.runLogged(ctx, s, x.Step, "KUBECONFIG="+kubeconfig)
}

// inMembers runs it once for each of some members, with the kubeconfig and the name of
// each, its output in logs/STEP/MEMBER.log.
func (x Exec) inMembers(ctx context.Context, s *Session, members []*Member) error {
	var done atomic.Int64
	s.Progress.Waiting(x.Step, 0, len(members))
	return ofMembers(members, forEachMember(ctx, execsAtOnce, members, func(_ int, m *Member) error {
		kubeconfig := filepath.Join(s.MemberFolder, m.Name+".kubeconfig")
		err := x.runLogged(ctx, s, filepath.Join(x.Step, m.Name), "KUBECONFIG="+kubeconfig, scenario.VarMember+"="+m.Name)
		s.Progress.Waiting(x.Step, int(done.Add(1)), len(members))
		return err
	}))
}

// runLogged runs it with its output in a log of this name.
func (x Exec) runLogged(ctx context.Context, s *Session, log string, env ...string) (err error) {
	name := s.Dir.File(filepath.Join(record.LogFolder, log+".log"))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	out, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("keep a command's output: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	env = append(env, scenario.VarMembers+"="+s.MemberFolder)
	if mark := s.Plane.OwnerMark(); mark != "" {
		env = append(env, mark)
	}
	c := command{Exec: x.Spec, dir: filepath.Dir(s.Workload.File), env: env, started: s.Plane.LookAfter}
	return c.runCommand(ctx, out)
}

// CheckCommand says that the program of the first command of the steps is missing. Later ones
// are not looked for: an earlier command may make them.
func CheckCommand(w *workload.Workload) error {
	for step := range w.Scenario.AllSteps() {
		if step.Exec != nil {
			name := step.Exec.Command[0]
			if err := findExecutable(filepath.Dir(w.File), name); err != nil {
				return fmt.Errorf("%s: command `%s`: %w", w.PlaceOfStep(step), name, err)
			}
			return nil
		}
	}
	return nil
}

// findExecutable looks for a program as a command in a folder does: a relative path is the
// folder's, a name is one of PATH.
func findExecutable(folder, name string) error {
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

// command is a local command and what it is given.
type command struct {
	*scenario.Exec
	dir     string
	env     []string
	started func(pid int) // told when it runs
}

// runCommand runs it with all that it starts in a process group of its own, which is killed
// when its time is up or ctx ends.
func (x command) runCommand(ctx context.Context, out *os.File) error {
	late := fmt.Errorf("%s did not end within %v", x.Command[0], x.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Timeout), late)
	defer cancel()
	c := exec.CommandContext(ctx, x.Command[0], x.Command[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = x.dir, out, out, outputGrace
	c.Env = append(os.Environ(), x.env...)
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		c.Env = append(c.Env, name+"="+x.Env[name])
	}
	c.SysProcAttr = kernel.OwnGroup()
	c.Cancel = func() error { return kernel.KillGroup(c.Process.Pid) }
	err := c.Start()
	if err == nil {
		x.started(c.Process.Pid)
		err = c.Wait()
		_ = kernel.KillGroup(c.Process.Pid) // what it left behind
	}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) && exit.Exited():
		return &exitError{x.Command[0], exit.ExitCode()}
	case err != nil:
		return fmt.Errorf("command `%s`: %w", x.Command[0], err)
	}
	return nil
}

// exitError is the answer of a command that ended by itself, and not with 0.
type exitError struct {
	command string
	code    int
}

func (e *exitError) Error() string {
	return fmt.Sprintf("command `%s` exited with code %d", e.command, e.code)
}

// Refuted says that the command was run and its answer was no.
func (e *exitError) Refuted() bool { return true }
