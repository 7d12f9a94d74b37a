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
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/scenario"
)

// outputGrace is how long a command's output may stay open after it was killed.
const outputGrace = 2 * time.Second

// Exec runs a local command: in the scenario's folder, with a kubeconfig of the
// plane, its output in logs/STEP.log.
type Exec struct {
	Step string
	Spec *scenario.Exec
}

// Do runs it.
func (x Exec) Do(ctx context.Context, s *Session) (err error) {
	kubeconfig, err := s.Plane.AdminKubeconfig()
	if err != nil {
		return err
	}
	name := s.Dir.File(filepath.Join(record.LogFolder, x.Step+".log"))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make a folder for logs: %w", err)
	}
	log, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("keep a command's output: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	env := []string{"KUBECONFIG=" + kubeconfig, scenario.VarMembers + "=" + s.Plane.MembersFolder()}
	c := command{Exec: x.Spec, dir: filepath.Dir(s.Workload.File), env: env, started: s.Plane.LookAfter}
	return c.run(ctx, log)
}

// command is a local command and what it is given.
type command struct {
	*scenario.Exec
	dir     string
	env     []string
	started func(pid int) // told when it runs
}

// run runs it with all that it starts in a process group of its own, which is killed
// when its time is up or ctx ends.
func (x command) run(ctx context.Context, out *os.File) error {
	late := fmt.Errorf("%s did not end within %v", x.Command[0], x.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Duration(x.Timeout), late)
	defer cancel()
	c := exec.CommandContext(ctx, x.Command[0], x.Command[1:]...)
	c.Dir, c.Stdout, c.Stderr, c.WaitDelay = x.dir, out, out, outputGrace
	c.Env = append(os.Environ(), x.env...)
	for _, name := range slices.Sorted(maps.Keys(x.Env)) {
		c.Env = append(c.Env, name+"="+x.Env[name])
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	err := c.Start()
	if err == nil {
		x.started(c.Process.Pid)
		err = c.Wait()
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it left behind
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("%s: %w", x.Command[0], err)
	}
	return nil
}
