package process

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kernel"
)

// How a process is held to its share of the CPU.
const (
	ByCgroup  = "cgroup"  // the CPU quota of a control group, renewed every 10 ms
	BySignals = "signals" // SIGSTOP while it has had more than its share, looked at every 5 ms
)

// speed is what slows a process down now.
type speed struct {
	mu   sync.Mutex
	undo func() error // nil at full speed
}

// Slow holds the CPU of the process and of those it has started to some cores
// from now on (0.2 = a fifth of one), and says by what: ByCgroup, or BySignals where
// control groups cannot be made. A CPU limit that is lower stays in force.
//
// The quota is preferred, since it is exact, costs nothing, and shows in the
// cgroup's own counts as a limit does. Its period is a tenth of the usual one: a
// slow machine is slow all the time, and does not stop for 80 ms at a time.
func (p *Process) Slow(cores float64) (by string, err error) {
	if !(cores > 0) {
		return "", fmt.Errorf("slow %s: %v cores are not above 0", p.spec.Name, cores)
	}
	p.speed.mu.Lock()
	defer p.speed.mu.Unlock()
	if err := p.fullSpeed(); err != nil {
		return "", err
	}
	if err := p.signalGroup(0); err != nil {
		return "", err
	}
	if own := p.spec.Limits.CPU; own > 0 && p.group != nil {
		cores = min(cores, own)
	}
	cores = p.spec.Within.capCores(cores) // v1 takes no more than what is around it has
	if p.speed.undo, err = p.setQuota(cores); err == nil {
		return ByCgroup, nil
	}
	p.speed.undo = p.startGovernor(cores)
	return BySignals, nil
}

// FullSpeed undoes Slow. It is idempotent, and no fault at full speed.
func (p *Process) FullSpeed() error {
	p.speed.mu.Lock()
	defer p.speed.mu.Unlock()
	return p.fullSpeed()
}

func (p *Process) fullSpeed() error {
	if p.speed.undo == nil {
		return nil
	}
	if err := p.speed.undo(); err != nil {
		return fmt.Errorf("bring %s to full speed: %w", p.spec.Name, err)
	}
	p.speed.undo = nil
	return nil
}

const (
	slowPeriod = 10 * time.Millisecond
	minQuota   = time.Millisecond // the kernel takes no less
	maxPeriod  = time.Second      // nor a longer period
)

// periodFor returns the period in which a share is at least the least quota.
func periodFor(cores float64) time.Duration {
	return min(max(slowPeriod, time.Duration(float64(minQuota)/cores)), maxPeriod)
}

// setQuota sets the quota of the process's own group, or of one made for it.
func (p *Process) setQuota(cores float64) (undo func() error, err error) {
	if in, ok := p.group.forCPU(); ok {
		if err := in.writeAll(in.cpuSettings(cores, periodFor(cores))); err != nil {
			return nil, err
		}
		return func() error { return ignoreGone(in.writeAll(in.cpuSettings(p.spec.Limits.CPU, cpuPeriod))) }, nil
	}
	group, err := newCgroup(p.groupName()+"-slow", Limits{CPU: cores}, nil, p.reaper)
	if err != nil {
		return nil, err
	}
	in := group.parts[0]
	if err := errors.Join(in.writeAll(in.cpuSettings(cores, periodFor(cores))), p.moveToCgroup(in.dir)); err != nil {
		return nil, errors.Join(err, p.leaveCgroup(in))
	}
	return func() error { return p.leaveCgroup(in) }, nil
}

// forCPU returns the part of the group that can limit the CPU. In v2 every
// group is one folder, and a process cannot be in two.
func (g *Cgroup) forCPU() (part, bool) {
	if g == nil {
		return part{}, false
	}
	for _, p := range g.parts {
		if p.version == 2 || slices.Contains(p.controllers, "cpu") {
			return p, true
		}
	}
	return part{}, false
}

// leaveCgroup moves the process back to where it came from, since a group of its own
// would still compete as one with all others, and removes the group.
func (p *Process) leaveCgroup(in part) error {
	if err := p.moveToCgroup(in.home); err != nil {
		return err
	}
	var err error
	for range 100 { // the kernel needs a moment until the group counts as empty
		if err = syscall.Rmdir(in.dir); err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove control group: %w", err)
}

// moveToCgroup moves the process and those it has started into a control group.
func (p *Process) moveToCgroup(dir string) error {
	for _, pid := range membersOf(p.pid) {
		err := writeExisting(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
		if err != nil && !errors.Is(err, syscall.ESRCH) { // it has ended
			return fmt.Errorf("move into control group: %w", err)
		}
	}
	return nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// governEvery is how often the governor looks.
const governEvery = 5 * time.Millisecond

// startGovernor starts a governor and returns what ends it.
func (p *Process) startGovernor(cores float64) (undo func() error) {
	stop := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() { p.throttleBySignals(cores, stop) })
	return func() error {
		close(stop)
		wait.Wait()
		return nil
	}
}

// throttleBySignals stops the process whenever it has used more CPU than its share, until
// time has made up for it. What it leaves unused it does not get later.
func (p *Process) throttleBySignals(cores float64, stop <-chan struct{}) {
	defer p.holdBriefly(false)
	tick := time.NewTicker(governEvery)
	defer tick.Stop()
	c := clock.Start()
	var ahead time.Duration // CPU used beyond the share
	var group meter
	for last, n := c.Now(), 0; ; n++ {
		if n%100 == 0 { // a walk over all processes: not every time
			group.setProcesses(membersOf(p.pid))
		}
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := c.Now()
		ahead = max(0, ahead+group.usedSinceLast()-time.Duration(cores*float64(now.Sub(last))))
		last = now
		p.holdBriefly(ahead > 0)
	}
}

// holdBriefly stops the process for a moment or lets it go on, unless somebody else
// has paused it or wants it to end.
func (p *Process) holdBriefly(hold bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hold = hold && !p.stopped
	if hold == p.held || p.paused {
		return
	}
	s := kernel.SIGCONT
	if hold {
		s = kernel.SIGSTOP
	}
	if p.signalLocked(s) == nil {
		p.held = hold
	}
}

// meter adds up the CPU of some processes.
type meter map[int]time.Duration // by number: used when last looked at

// setProcesses sets whose CPU is added up; it counts from now for those that are new.
func (m *meter) setProcesses(pids []int) {
	now := meter{}
	for _, pid := range pids {
		used, known := (*m)[pid]
		if !known {
			used = cpuTime(pid)
		}
		now[pid] = used
	}
	*m = now
}

// usedSinceLast returns the CPU used since the last call.
func (m meter) usedSinceLast() (sum time.Duration) {
	for pid, before := range m {
		if now := cpuTime(pid); now > before {
			sum += now - before
			m[pid] = now
		}
	}
	return sum
}
