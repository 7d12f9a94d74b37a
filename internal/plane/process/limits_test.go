package process_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/windtunnel/windtunnel/internal/plane/process"
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
	if p.Err() == nil || !strings.Contains(p.Err().Error(), "memory limit") {
		t.Errorf("error %v, want the memory limit named", p.Err())
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
	ms, err := strconv.Atoi(strings.Fields(text)[1])
	if err != nil {
		t.Fatal(err)
	}
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
	tasks, err := filepath.Glob("/proc/self/task/*/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range tasks {
		if raw, err := os.ReadFile(file); err == nil && strings.Contains(string(raw), "windtunnel-") {
			t.Errorf("a thread stayed in the group: %s", raw)
		}
	}
}
