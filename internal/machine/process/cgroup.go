package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// namePrefix begins the name of every run's private folder and control group; what
// does not begin so, or as a Folder does, is never removed. It is not "windtunnel-"
// alone: people name folders of their own so.
const namePrefix = "windtunnel-run-"

// Cgroup is a control group made for one process, in cgroup v1 one folder for
// each controller. A nil Cgroup is one without limits.
type Cgroup struct{ parts []part }

// part is the group in one hierarchy.
type part struct {
	version     int      // 1 or 2
	controllers []string // cpu, memory
	dir         string
	home        string // v1: where this process's own threads belong
}

// newCgroup makes a group with limits below another one, or next to or below this
// process's own one where that is nil. It leaves nothing behind when it fails.
func newCgroup(name string, limits Limits, within *Group, reaper *Reaper) (*Cgroup, error) {
	if within != nil {
		if err := within.canLimit(limits); err != nil {
			return nil, err
		}
		g, err := makeCgroup(name, within.childPlaces(), limits, reaper)
		if err != nil {
			return nil, err
		}
		for i := range g.parts {
			g.parts[i].home = within.cgroup.parts[i].home // not the group around it
		}
		return g, nil
	}
	places, err := ownPlaces(limits.neededControllers())
	if err != nil {
		return nil, err
	}
	return makeCgroup(name, places, limits, reaper)
}

func makeCgroup(name string, places []place, limits Limits, reaper *Reaper) (*Cgroup, error) {
	g := &Cgroup{}
	for _, place := range places {
		made, err := place.makeGroup(name, reaper)
		if err == nil {
			g.parts = append(g.parts, made)
			err = made.writeLimits(limits)
		}
		if err != nil {
			return nil, errors.Join(err, g.removeGroup())
		}
	}
	return g, nil
}

// ownPlaces finds where groups with these controllers can be made.
func ownPlaces(controllers []string) ([]place, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find control groups: %w", err)
	}
	return placesFor(parseOwn(string(own)), parseMounts(string(mounts)), controllers)
}

// makeGroup makes the group in the first folder that allows it.
func (p place) makeGroup(name string, reaper *Reaper) (part, error) {
	var faults []error
	for i, parent := range p.parents {
		if p.version == 2 {
			if err := delegateControllers(parent, p.controllers, i == 0); err != nil {
				faults = append(faults, err)
				continue
			}
		}
		dir := filepath.Join(parent, name)
		reaper.recordCgroup(dir)
		if err := os.Mkdir(dir, 0o755); err != nil {
			faults = append(faults, fmt.Errorf("make control group: %w", err))
			continue
		}
		return part{version: p.version, controllers: p.controllers, dir: dir, home: p.parents[0]}, nil
	}
	return part{}, errors.Join(faults...)
}

// delegateControllers sees to it that groups made in parent get the controllers. It turns
// them on in the own group only: further up this would change the machine for
// others. The kernel refuses while the own group holds processes, unless it is
// the root.
func delegateControllers(parent string, controllers []string, own bool) error {
	path := filepath.Join(parent, "cgroup.subtree_control")
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read controllers: %w", err)
	}
	on := strings.Fields(string(raw))
	for _, c := range controllers {
		if slices.Contains(on, c) {
			continue
		}
		if !own {
			return fmt.Errorf("control group %s does not pass on the controller %s", parent, c)
		}
		if err := writeExisting(path, "+"+c); err != nil {
			return fmt.Errorf("turn on the controller %s: %w", c, err)
		}
	}
	return nil
}

// cpuPeriod is the kernel's own default: within each, a group may use its part
// of the CPUs' time.
const cpuPeriod = 100 * time.Millisecond

// writeLimits writes the limits.
func (p part) writeLimits(l Limits) error {
	return p.writeAll(p.limitSettings(l))
}

func (p part) writeAll(settings [][2]string) error {
	for _, f := range settings {
		if err := writeExisting(filepath.Join(p.dir, f[0]), f[1]); err != nil {
			return fmt.Errorf("set limit: %w", err)
		}
	}
	return nil
}

// limitSettings returns file and value of each limit.
func (p part) limitSettings(l Limits) (out [][2]string) {
	for _, c := range p.controllers {
		switch {
		case c == "cpu":
			out = append(out, p.cpuSettings(l.CPU, cpuPeriod)...)
		case l.Memory == 0: // a new group has none
		case p.version == 1:
			out = append(out, [2]string{"memory.limit_in_bytes", strconv.FormatUint(l.Memory, 10)})
		default:
			out = append(out, [2]string{"memory.max", strconv.FormatUint(l.Memory, 10)})
		}
	}
	return out
}

// cpuSettings are those of a CPU limit; 0 cores are no limit.
func (p part) cpuSettings(cores float64, within time.Duration) [][2]string {
	period := strconv.FormatInt(within.Microseconds(), 10)
	quota := strconv.FormatInt(max(1000, int64(cores*float64(within.Microseconds()))), 10)
	switch {
	case p.version == 1 && cores == 0:
		quota = "-1"
	case cores == 0:
		quota = "max"
	}
	if p.version == 1 {
		return [][2]string{{"cpu.cfs_period_us", period}, {"cpu.cfs_quota_us", quota}}
	}
	return [][2]string{{"cpu.max", quota + " " + period}}
}

// foldersByController returns the folders by controller.
func (g *Cgroup) foldersByController() map[string]string {
	out := map[string]string{}
	if g != nil {
		for _, p := range g.parts {
			for _, c := range p.controllers {
				out[c] = p.dir
			}
		}
	}
	return out
}

// oomKills returns how often the kernel killed in the group for its memory limit.
func (g *Cgroup) oomKills() int {
	dir, ok := g.foldersByController()["memory"]
	if !ok {
		return 0
	}
	for _, file := range []string{"memory.events", "memory.oom_control"} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(raw)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == "oom_kill" {
				n, _ := strconv.Atoi(f[1]) // 0 is what an unreadable count means
				return n
			}
		}
	}
	return 0
}

// removeGroup removes the group with what may still run in it.
func (g *Cgroup) removeGroup() error {
	if g == nil {
		return nil
	}
	var faults []error
	for _, p := range g.parts {
		faults = append(faults, removeCgroup(p.dir))
	}
	return errors.Join(faults...)
}

// removeCgroup kills what is in the group and removes it. The kernel needs a
// moment between a process's end and the group's being empty.
func removeCgroup(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), namePrefix) {
		return fmt.Errorf("remove control group %s: it is not one of windtunnel's", dir)
	}
	var err error
	for range 300 {
		err = syscall.Rmdir(dir)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		killAllIn(dir)
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("remove control group %s: %w", dir, err)
}

func killAllIn(dir string) {
	raw, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, field := range strings.Fields(string(raw)) {
		if pid, err := strconv.Atoi(field); err == nil && pid > 1 && pid != os.Getpid() {
			_ = kernel.Kill(pid, syscall.SIGKILL)
		}
	}
}

// writeExisting writes to a file that the kernel has made; it never makes one.
func writeExisting(path, value string) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(value)
	return errors.Join(err, file.Close())
}
