// Package process starts one child process and looks after it: a log file,
// limits by control group, an own process group, its exit, its last words.
// With a Reaper, nothing of a run outlives windtunnel, whatever ends it.
//
// It knows nothing of Kubernetes. Package plane starts components and subjects with it,
// package processnode the containers of its pods.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kernel"
)

// Spec says what to start.
type Spec struct {
	Name    string   // for messages and the control group
	Path    string   // executable
	Args    []string // without the executable
	Env     []string // the whole environment, NAME=value; nothing is inherited
	Dir     string   // working directory; default /
	LogFile string   // both outputs are appended to it; made with mode 0600
	Input   []byte   // what it reads from its standard input
	Limits  Limits
	Within  *Group // whose limits it shares; nil: nobody's
	Ahead   bool   // it goes before others as this process does, if that does (Prefer)
}

// Limits bound a process and its children.
type Limits struct {
	CPU    float64 // cores; 0 = no limit
	Memory uint64  // bytes; 0 = no limit
}

func (l Limits) hasAny() bool { return l.CPU > 0 || l.Memory > 0 }

// neededControllers are those of control groups that the limits need.
func (l Limits) neededControllers() (out []string) {
	if l.CPU > 0 {
		out = append(out, "cpu")
	}
	if l.Memory > 0 {
		out = append(out, "memory")
	}
	return out
}

// Process is a child process. All methods may be called from many goroutines.
type Process struct {
	spec    Spec
	pid     int
	reaper  *Reaper
	group   *Cgroup
	warning string
	done    chan struct{}
	speed   speed

	mu      sync.Mutex
	reaped  bool
	stopped bool  // its end was asked for
	paused  bool  // by Pause
	held    bool  // by the governor, for a moment
	err     error // how it ended
	end     End
}

// End is how a process ended.
type End struct {
	Code int  // its exit status, or 128 and the signal's number, as shells have it
	OOM  bool // something in its control group was killed for want of memory
}

// Start starts a process and tells the reaper, which may be nil, of it. Where
// the limits cannot be set the process runs without them and Warning says so.
//
// The kernel kills the child when the thread that forked it dies. So a
// goroutine that is locked to its thread forks it and then stays in wait.
func Start(spec Spec, reaper *Reaper) (*Process, error) {
	if err := kernel.Require("starting " + spec.Name); err != nil {
		return nil, err
	}
	if spec.Dir == "" {
		spec.Dir = "/"
	}
	log, err := os.OpenFile(spec.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: open its log file: %w", spec.Name, err)
	}
	defer log.Close()
	p := &Process{spec: spec, reaper: reaper, done: make(chan struct{})}
	p.makeCgroup()
	started := make(chan error)
	go p.runChild(log, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	return p, nil
}

// makeCgroup makes the control group, or a warning.
func (p *Process) makeCgroup() {
	if !p.spec.Limits.hasAny() && p.spec.Within == nil {
		return
	}
	var err error
	if p.group, err = newCgroup(p.groupName(), p.spec.Limits, p.spec.Within, p.reaper); err == nil {
		return
	}
	p.warning = fmt.Sprintf("%s runs without its limits: %v", p.spec.Name, err)
	if p.spec.Limits.hasAny() && p.spec.Within != nil { // what it shares may still hold
		p.spec.Limits = Limits{}
		p.group, _ = newCgroup(p.groupName(), Limits{}, p.spec.Within, p.reaper)
	}
}

// groupName is the name of the process's control group.
func (p *Process) groupName() string { return groupName(p.reaper, p.spec.Name) }

func groupName(reaper *Reaper, of string) string {
	if reaper != nil {
		return filepath.Base(reaper.Dir()) + "-" + of
	}
	return fmt.Sprintf("%s%d-%s", namePrefix, os.Getpid(), of)
}

// runChild forks the child, waits for its end and clears up after it.
func (p *Process) runChild(log *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if !p.spec.Ahead {
		asTheParent()
	}
	cmd := &exec.Cmd{
		Path: p.spec.Path, Args: append([]string{p.spec.Path}, p.spec.Args...), Env: p.spec.Env, Dir: p.spec.Dir,
		Stdout: log, Stderr: log, SysProcAttr: childAttributes(),
	}
	if cmd.Env == nil {
		cmd.Env = []string{}
	}
	if len(p.spec.Input) > 0 {
		cmd.Stdin = bytes.NewReader(p.spec.Input)
	}
	if err := p.startInCgroup(cmd); err != nil {
		started <- errors.Join(err, p.group.removeGroup())
		return
	}
	p.pid = cmd.Process.Pid
	p.reaper.Process(p.pid)
	started <- nil
	awaitExit(p.pid)

	p.mu.Lock()
	// The group's number is still taken: it cannot be another's yet.
	_ = kernel.Kill(-p.pid, syscall.SIGKILL)
	_ = cmd.Wait() // its state is read below
	p.reaped = true
	p.err = p.deathErrorLocked(cmd.ProcessState)
	p.end = End{Code: exitCode(cmd.ProcessState), OOM: p.group.oomKills() > 0}
	p.mu.Unlock()
	if err := errors.Join(p.FullSpeed(), p.group.removeGroup()); err != nil {
		p.mu.Lock()
		p.err = errors.Join(p.err, err)
		p.mu.Unlock()
	}
	close(p.done)
}

// startInCgroup starts the command inside the control group, if there is one: entered
// later, the group would count only a part, and a Go program would have taken
// its number of threads from the machine instead of from its limit.
func (p *Process) startInCgroup(cmd *exec.Cmd) error {
	if p.group == nil {
		return cmd.Start()
	}
	leave, err := p.group.enterForChild(cmd.SysProcAttr)
	if err != nil {
		p.warning = fmt.Sprintf("%s runs without its limits: %v", p.spec.Name, err)
		err = p.group.removeGroup()
		p.group = nil
		return errors.Join(err, cmd.Start())
	}
	defer leave()
	return cmd.Start()
}

// deathErrorLocked makes the error of an end; callers hold mu.
func (p *Process) deathErrorLocked(state *os.ProcessState) error {
	if p.stopped {
		return nil
	}
	e := &DeathError{Name: p.spec.Name, State: state.String(), LogFile: p.spec.LogFile, Lines: p.LastWords()}
	if p.group.oomKills() > 0 {
		e.SharedLimit = p.spec.Within != nil && p.spec.Within.limits.Memory > 0
		e.OwnLimit = !e.SharedLimit || p.spec.Limits.Memory > 0
		e.State += ", killed at " + p.memoryLimit(e)
	}
	return e
}

// memoryLimit names the limit that it was killed at.
func (p *Process) memoryLimit(e *DeathError) string {
	switch {
	case e.OwnLimit && e.SharedLimit:
		return "a memory limit, its own or that of " + p.spec.Within.whose
	case e.SharedLimit:
		return "the memory limit of " + p.spec.Within.whose
	}
	return "its memory limit"
}

// PID returns the process's number.
func (p *Process) PID() int { return p.pid }

// LogFile returns the path of its log.
func (p *Process) LogFile() string { return p.spec.LogFile }

// Limited says whether limits of its own were asked for and are in force.
func (p *Process) Limited() bool { return p.group != nil && p.spec.Limits.hasAny() }

// Warning says why limits are not in force; empty if they are or none was asked for.
func (p *Process) Warning() string { return p.warning }

// Cgroups returns the folder of its control group by controller (cpu, memory);
// empty without limits.
func (p *Process) Cgroups() map[string]string { return p.group.foldersByController() }

// Done is closed when the process has ended and its control group is gone.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the process ended: nil while it runs and when its end was asked
// for, otherwise a *DeathError.
func (p *Process) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// exitCode is an exit status, or 128 and the number of the signal that ended it.
func exitCode(state *os.ProcessState) int {
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return state.ExitCode()
}

// End says how the process ended, also where that was asked for. It means nothing
// before Done is closed.
func (p *Process) End() End {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end
}

// LastWords returns the last lines of the log, those that say why it died if
// they can be told.
func (p *Process) LastWords() []string { return lastWordsOf(p.spec.LogFile) }

// Stop asks the process to end, kills it when grace has passed, and returns
// when it is gone. It is idempotent.
func (p *Process) Stop(grace time.Duration) {
	p.expectEnd()
	_ = p.signalGroup(syscall.SIGTERM) // it may be gone already
	_ = p.signalGroup(kernel.SIGCONT)  // a paused process would not hear
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.signalGroup(syscall.SIGKILL)
		<-p.done
	}
}

// Kill ends the process with SIGKILL and returns when it is gone. This end
// counts as asked for.
func (p *Process) Kill() {
	p.expectEnd()
	_ = p.signalGroup(syscall.SIGKILL)
	<-p.done
}

// pauseWithin bounds how long Pause waits: a thread that waits for a disk stops
// when it has got what it waits for.
const pauseWithin = 10 * time.Second

// Pause holds the process, and those it has started, where they are. A signal
// that was sent has not arrived, so it returns when the kernel says that all of
// the process's threads have stopped, or when Continue was called meanwhile.
func (p *Process) Pause() error {
	p.mu.Lock()
	p.paused = true
	err := p.signalLocked(kernel.SIGSTOP)
	p.mu.Unlock()
	for c := clock.Start(); err == nil && !p.isHalted(); time.Sleep(time.Millisecond) {
		if time.Duration(c.Now()) > pauseWithin {
			return fmt.Errorf("pause %s: it has not stopped within %v", p.spec.Name, pauseWithin)
		}
	}
	return err
}

// isHalted says whether there is nothing left that a pause waits for.
func (p *Process) isHalted() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reaped || !p.paused || isStopped(p.pid)
}

// Paused tells whether Pause holds the process.
func (p *Process) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Continue lets a paused process go on.
func (p *Process) Continue() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paused, p.held = false, false
	return p.signalLocked(kernel.SIGCONT)
}

func (p *Process) expectEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// signalGroup reaches the whole process group.
func (p *Process) signalGroup(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.signalLocked(s)
}

// signalLocked is signal for those who hold mu: under it the leader is not yet
// reaped, so that the number is the group's.
func (p *Process) signalLocked(s syscall.Signal) error {
	if p.reaped {
		return fmt.Errorf("signal %s: %w", p.spec.Name, os.ErrProcessDone)
	}
	if err := kernel.Kill(-p.pid, s); err != nil {
		return fmt.Errorf("signal %s: %w", p.spec.Name, err)
	}
	return nil
}
