package process_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// limited starts a process with limits or skips where groups are not writable.
func limited(t *testing.T, l process.Limits, mode string, args ...string) *process.Process {
	t.Helper()
	s := spec(t, mode, args...)
	s.Limits = l
	p := start(t, s)
	if !p.Limited() {
		if p.Warning() == "" {
			t.Error("no limits and no warning")
		}
		t.Skip(p.Warning())
	}
	return p
}

func TestMemoryLimitKillsAndTheErrorSaysSo(t *testing.T) {
	p := limited(t, process.Limits{Memory: 64 << 20}, "eat", "200")
	dir := p.Cgroups()["memory"]
	<-p.Done()
	var death *process.DeathError
	if !errors.As(p.Err(), &death) || !strings.Contains(death.Error(), "memory limit") || !death.OwnLimit || death.SharedLimit {
		t.Errorf("error %+v, want the memory limit named", p.Err())
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("control group %s is left: %v", dir, err)
	}
}

func TestMemoryBelowTheLimitIsNoFault(t *testing.T) {
	p := limited(t, process.Limits{Memory: 128 << 20}, "eat", "20")
	<-p.Done()
	if text := logged(t, p, "ate"); !strings.Contains(text, "ate") {
		t.Error(text)
	}
}

func TestCPULimitIsInForce(t *testing.T) {
	p := limited(t, process.Limits{CPU: 0.2}, "burn")
	text := logged(t, p, "cpu ")
	ms := repotest.Must(strconv.Atoi(strings.Fields(text)[1]))(t)
	if ms > 450 {
		t.Errorf("used %d ms of CPU in a second with a limit of 0.2 cores", ms)
	}
}

func TestChildBeginsInsideItsGroup(t *testing.T) {
	p := limited(t, process.Limits{CPU: 1, Memory: 256 << 20}, "where")
	<-p.Done()
	text := logged(t, p, "memory")
	for controller, dir := range p.Cgroups() {
		if !strings.Contains(text, filepath.Base(dir)) {
			t.Errorf("%s: child began outside %s:\n%s", controller, dir, text)
		}
	}
	if len(p.Cgroups()) != 2 {
		t.Errorf("groups %v, want cpu and memory", p.Cgroups())
	}
	// The threads of this process have all come back.
	tasks := repotest.Must(filepath.Glob("/proc/self/task/*/cgroup"))(t)
	for _, file := range tasks {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), "windtunnel-") {
			t.Errorf("a thread stayed in the group: %s", raw)
		}
	}
}

// shared makes a group or skips where groups are not writable.
func shared(t *testing.T, l process.Limits) *process.Group {
	t.Helper()
	g, err := process.NewGroup("the plane", l, nil)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
		for _, dir := range g.Cgroups() {
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("control group %s is left: %v", dir, err)
			}
		}
	})
	return g
}

func within(t *testing.T, g *process.Group, name string, l process.Limits, mode string, args ...string) *process.Process {
	t.Helper()
	s := spec(t, mode, args...)
	s.Name, s.Within, s.Limits = name, g, l
	p := start(t, s)
	if p.Warning() != "" {
		t.Fatal(p.Warning())
	}
	return p
}

// Two processes that would each take a core have a fifth of one together.
func TestCPULimitIsShared(t *testing.T) {
	g := shared(t, process.Limits{CPU: 0.2})
	a, b := within(t, g, "one", process.Limits{}, "burn"), within(t, g, "two", process.Limits{CPU: 0.2}, "burn")
	sum := 0
	for _, p := range []*process.Process{a, b} {
		ms := repotest.Must(strconv.Atoi(strings.Fields(logged(t, p, "cpu "))[1]))(t)
		sum += ms
		<-p.Done()
	}
	if sum > 450 {
		t.Errorf("two processes used %d ms of CPU in a second with 0.2 cores for both", sum)
	}
	if a.Limited() || !b.Limited() {
		t.Errorf("limits of their own: %v, %v", a.Limited(), b.Limited())
	}
}

func TestSharedMemoryLimitKillsAndTheErrorSaysWhose(t *testing.T) {
	g := shared(t, process.Limits{Memory: 64 << 20})
	for own, want := range map[uint64]string{0: "killed at the memory limit of the plane", 60 << 20: "killed at a memory limit, its own or that of the plane"} {
		p := within(t, g, "eater", process.Limits{Memory: own}, "eat", "200")
		<-p.Done()
		var death *process.DeathError
		if !errors.As(p.Err(), &death) || !strings.Contains(death.Error(), want) || !death.SharedLimit || death.OwnLimit != (own > 0) {
			t.Errorf("error %+v, want %q", p.Err(), want)
		}
	}
}

// A process stays in what it shares while it is slow, and after that.
func TestSlowStaysInTheSharedGroup(t *testing.T) {
	g := shared(t, process.Limits{CPU: 0.5})
	p := within(t, g, "one", process.Limits{}, "sleep")
	for _, cores := range []float64{0.2, 4, 0} {
		if cores == 0 {
			repotest.NoError(t, p.FullSpeed())
		} else if by, err := p.Slow(cores); err != nil || by != process.ByCgroup {
			t.Fatalf("slowed to %v by %q, %v", cores, by, err)
		}
		raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "cgroup"))
		if err != nil || !strings.Contains(string(raw), filepath.Base(g.Cgroups()["cpu"])+"/") {
			t.Errorf("at %v cores it is in %s, %v", cores, raw, err)
		}
	}
	p.Kill()
}
