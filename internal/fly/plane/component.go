package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/windtunnel/windtunnel/internal/api/endpoint"
	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/fly/plane/release"
	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/scenario"
)

// Component is one process of the plane, as it was when the plane was asked
// for it. Its faults hit the process that runs now.
type Component struct {
	Name        string
	PID         int               // of the process; 0: not one of windtunnel's
	MetricsURL  string            // https://127.0.0.1:PORT/metrics
	Scrape      endpoint.Endpoint // its Client may get MetricsURL; never through a proxy
	LogFile     string
	AuditLog    string            // JSON lines of level Metadata; empty: none is written
	CPULimit    float64           // cores asked for; 0 = none
	MemoryLimit uint64            // bytes asked for; 0 = none
	Limited     bool              // the limits above are in force
	Cgroups     map[string]string // folder by controller (cpu, memory); empty without limits
	supervisor  *supervisor       // nil: not windtunnel's
}

// FaultEvent is one thing that was done to a component.
type FaultEvent struct {
	At        clock.Time // when it began to hold; of the clock of Options
	Component string
	Kind      string // one of the kinds below
	Text      string // more of it, for people
}

// Kinds of what follows from faults: FaultEvent.Component is the balancer.
const (
	NoServer    = "no-server" // is ready: new connections are refused
	ServerReady = "server-ready"
)

// Kinds of faults. A restart is FaultKill, if the component ran, FaultStart and
// FaultReady.
const (
	FaultKill      = "kill"
	FaultTerm      = "term"
	FaultPause     = "pause"
	FaultContinue  = "continue"
	FaultStart     = "start"
	FaultReady     = "ready"
	FaultSlow      = "slow" // Text: "0.2 cores by cgroup"
	FaultFullSpeed = "full-speed"
	FaultPartition = "partition"
	FaultJoin      = "join" // of a member that was cut from the others
	FaultExit      = "exit" // of one of several that elect a leader, by itself; it is started again
)

// Kill ends the component with SIGKILL and returns when it is gone; no Death is
// reported.
func (c Component) Kill() error {
	if c.supervisor == nil {
		return fmt.Errorf("kill %s: %w", c.Name, ErrNotOurs)
	}
	if err := c.supervisor.killProcess(); err != nil {
		return fmt.Errorf("kill %s: %w", c.Name, err)
	}
	return nil
}

// termGrace is how long a component has to end after SIGTERM, as a static pod has.
const termGrace = 30 * time.Second

// Terminate ends the component with SIGTERM, or after 30 seconds with SIGKILL, and returns
// when it is gone; no Death is reported.
func (c Component) Terminate() error {
	return c.disturb(FaultTerm, func(p *process.Process) (string, error) {
		p.Stop(termGrace)
		return "", nil
	})
}

// Pause holds the component where it is (SIGSTOP), as a machine that hangs would:
// its connections stay open, and the kernel still takes what they bring.
func (c Component) Pause() error {
	return c.disturb(FaultPause, func(p *process.Process) (string, error) { return "", p.Pause() })
}

// Continue lets a paused component go on.
func (c Component) Continue() error {
	return c.disturb(FaultContinue, func(p *process.Process) (string, error) { return "", p.Continue() })
}

// Slow holds the component's CPU to some cores, such as 0.2: by a control
// group's quota in periods of 10 ms or, where none can be made, by SIGSTOP and
// SIGCONT. It stays slow through restarts until FullSpeed; another Slow
// replaces the first.
func (c Component) Slow(cores float64) error {
	return c.disturb(FaultSlow, func(*process.Process) (string, error) { return c.supervisor.slowProcess(cores) })
}

// FullSpeed undoes Slow. It is no fault where nothing was slow.
func (c Component) FullSpeed() error {
	return c.disturb(FaultFullSpeed, func(*process.Process) (string, error) { return "", c.supervisor.fullSpeed() })
}

// Restart kills the component, if it runs, and starts it again: with the same
// flags, the same data and the same limits. It returns when the component is ready.
//
// When ctx ends before, or when it does not become ready within two minutes,
// its process is killed and the component stays down, as after Kill; so it does
// when it dies (*process.DeathError), which is then reported here alone. ErrClosed
// and ErrEnded: somebody closed the plane or killed the component meanwhile.
func (c Component) Restart(ctx context.Context) error {
	if c.supervisor == nil {
		return fmt.Errorf("restart %s: %w", c.Name, ErrNotOurs)
	}
	if err := c.supervisor.restartProcess(ctx); err != nil {
		return fmt.Errorf("restart %s: %w", c.Name, err)
	}
	return nil
}

// disturb does one thing to the process that runs now and reports it.
func (c Component) disturb(kind string, do func(*process.Process) (string, error)) error {
	if c.supervisor == nil {
		return fmt.Errorf("%s %s: %w", kind, c.Name, ErrNotOurs)
	}
	at := c.supervisor.plane.clock.Now()
	text, err := do(c.supervisor.currentProcess())
	if err != nil {
		return fmt.Errorf("%s %s: %w", kind, c.Name, err)
	}
	c.supervisor.plane.reportFault(FaultEvent{at, c.Name, kind, text})
	return nil
}

func (p *Plane) reportFault(f FaultEvent) {
	p.log.Info("fault", "component", f.Component, "kind", f.Kind, "text", f.Text)
	if p.onFault != nil {
		p.onFault(f)
	}
}

// Inject does what a fault says of a component. What it returns takes that back.
func (c Component) Inject(ctx context.Context, d *scenario.Disturbance) (mend func(context.Context) error, err error) {
	if d.Action != "restart" && c.supervisor != nil && hasEnded(c.supervisor.currentProcess()) {
		return nil, fmt.Errorf("%s %s: %w", d.Action, c.Name, ErrNotRunning)
	}
	switch d.Action {
	case "kill":
		return c.Restart, c.Kill()
	case "term":
		return c.Restart, c.Terminate()
	case "pause":
		return func(context.Context) error { return c.Continue() }, c.Pause()
	case "restart":
		return func(context.Context) error { return nil }, c.Restart(ctx)
	case "slow":
		return func(context.Context) error { return c.FullSpeed() }, c.Slow(d.Share * c.cores())
	case "partition":
		return func(context.Context) error { return c.Join() }, c.Partition()
	}
	return nil, fmt.Errorf("%s %s: %w", d.Action, c.Name, ErrNoFault)
}

// cores is how many a component may use.
func (c Component) cores() float64 {
	if c.CPULimit > 0 {
		return c.CPULimit
	}
	return float64(runtime.NumCPU())
}

// current returns the component with what changes when it is restarted.
func (c Component) current() Component {
	if c.supervisor != nil {
		p := c.supervisor.currentProcess()
		c.PID, c.Limited, c.Cgroups = p.PID(), p.Limited(), p.Cgroups()
	}
	return c
}

// supervisor keeps one component running: processes come and go under it.
type supervisor struct {
	plane *Plane
	spec  process.Spec
	turn  chan struct{} // full while a restart is under way
	guest bool          // a program, not a component of the plane
	role  Role          // beside the plane
	// How it is known to be ready, and within what time; zero: as components are.
	ready  func(context.Context) error
	within time.Duration
	// The command with the executables of another release; nil: it has none.
	commandFor func(release.Plane) (path string, args []string)

	mu      sync.Mutex
	process *process.Process // the last; nil before the first
	cores   float64          // that it is slowed to; 0 at full speed
	left    bool             // no process is started any more
	elected bool             // one of several that elect a leader, and ready: started again where it exits
}

func (s *supervisor) currentProcess() *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// preventStarts sees to it that no process is started any more.
func (s *supervisor) preventStarts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = true
}

// startProcess starts a process, as slow as it is to be.
func (s *supervisor) startProcess() (*process.Process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return nil, ErrClosed
	}
	child, err := process.Start(s.spec, s.plane.reaper)
	if err != nil {
		return nil, err
	}
	s.plane.noteUnlimited(s.spec.Name, child.Warning())
	s.process = child
	if s.cores > 0 {
		if _, err := child.Slow(s.cores); err != nil && !errors.Is(err, os.ErrProcessDone) {
			child.Kill()
			return nil, err
		}
	}
	return child, nil
}

// watchProcess reports the death of a process from now on.
func (s *supervisor) watchProcess(child *process.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return // Close may be past its wait for watchers
	}
	s.plane.watchers.Go(func() {
		<-child.Done()
		var death *process.DeathError
		if !errors.As(child.Err(), &death) || s.startAgain(child) {
			return
		}
		select {
		case s.plane.died <- Death{Component: s.spec.Name, Member: s.role == ServerRole, Err: death}:
		default: // nobody reads them, and this one is no news
		}
	})
}

// startAgain starts one of several that elect a leader again, after it ended by itself. One
// that ends before it is ready did not lose a lease: that is a death.
func (s *supervisor) startAgain(ended *process.Process) bool {
	at := s.plane.clock.Now()
	if !s.isElected() {
		return false
	}
	s.turn <- struct{}{} // a restart that is under way ends in time
	defer func() { <-s.turn }()
	if s.currentProcess() != ended {
		return true
	}
	s.plane.reportFault(FaultEvent{at, s.spec.Name, FaultExit, "and is started again"})
	child, err := s.startProcess()
	if err != nil {
		return errors.Is(err, ErrClosed)
	}
	s.plane.reportFault(FaultEvent{s.plane.clock.Now(), s.spec.Name, FaultStart, ""})
	if s.awaitReady(context.Background(), child) != nil {
		child.Kill()
		return false
	}
	s.watchProcess(child)
	return true
}

// setElected has the process started again where it exits by itself.
func (s *supervisor) setElected() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elected = true
}

func (s *supervisor) isElected() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.elected
}

func (s *supervisor) slowProcess(cores float64) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by, err := s.process.Slow(cores)
	if err != nil {
		return "", err
	}
	s.cores = cores
	return fmt.Sprintf("%v cores by %s", cores, by), nil
}

func (s *supervisor) fullSpeed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cores = 0
	return s.process.FullSpeed()
}

// restartProcess ends the process that runs and waits until another is ready. One at a
// time: a second restart waits for the first.
func (s *supervisor) restartProcess(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-s.turn }()
	if err := s.killProcess(); err != nil {
		return err
	}
	at := s.plane.clock.Now()
	child, err := s.startProcess()
	if err != nil {
		return err
	}
	s.plane.reportFault(FaultEvent{at, s.spec.Name, FaultStart, ""})
	if err := s.awaitReady(ctx, child); err != nil {
		child.Kill()
		return err
	}
	s.plane.reportFault(FaultEvent{s.plane.clock.Now(), s.spec.Name, FaultReady, ""})
	s.watchProcess(child)
	return nil
}

// killProcess ends the process, if it runs.
func (s *supervisor) killProcess() error {
	child := s.currentProcess()
	if !hasEnded(child) {
		at := s.plane.clock.Now()
		child.Kill()
		s.plane.reportFault(FaultEvent{at, s.spec.Name, FaultKill, ""})
	}
	var death *process.DeathError
	if err := child.Err(); err != nil && !errors.As(err, &death) {
		return err // what it had could not be removed
	}
	return nil
}

func hasEnded(child *process.Process) bool {
	select {
	case <-child.Done():
		return true
	default:
		return false
	}
}

// awaitReady waits until a component answers that it is ready, on its own port
// and past any proxy, or a program is as it is to be.
func (s *supervisor) awaitReady(ctx context.Context, child *process.Process) error {
	within := cmp.Or(s.within, readyWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not ready within %v", within))
	defer cancel()
	ready := s.ready
	switch {
	case ready != nil:
	case s.guest:
		ready = func(context.Context) error { return nil }
	default:
		ask, err := newAsker(s.plane.scrapes[s.spec.Name])
		if err != nil {
			return err
		}
		defer ask.client.CloseIdleConnections()
		ready = ask.isReady
	}
	return pollUntil(ctx, s.plane.log, s.spec.Name+" to be ready", ready, func() error {
		switch {
		case !hasEnded(child):
			return nil
		case child.Err() != nil:
			return child.Err()
		}
		return ErrEnded
	})
}
