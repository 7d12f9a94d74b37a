package usage

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

func TestSchedstat(t *testing.T) {
	for text, want := range map[string]float64{"532769 71998000000 3\n": 71.998, "0 0 0": 0} {
		if got, ok := parseSchedstat([]byte(text)); !ok || got != want {
			t.Errorf("%q: %v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "1 2", "1 x 3", "1 -2 3"} {
		if got, ok := parseSchedstat([]byte(text)); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestMemoryLimitHits(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       float64
		ok         bool
	}{
		{"memory.failcnt", "17\n", 17, true},
		{"memory.events", "low 0\nhigh 3\nmax 12\noom 0\noom_kill 0\n", 12, true},
		{"memory.events.local", "max 3\n", 3, true},
		{"memory.events", "low 0\n", 0, false},
		{"memory.failcnt", "many", 0, false},
		{"cpu.stat", "nr_periods 1", 0, false},
	} {
		folder := t.TempDir()
		repotest.NoError(t, os.WriteFile(filepath.Join(folder, c.file), []byte(c.text), 0o600))
		if got, ok := limitHits(folder); got != c.want || ok != c.ok {
			t.Errorf("%s %q: %v, %v", c.file, c.text, got, ok)
		}
	}
}

func TestWorkingSet(t *testing.T) {
	for what, c := range map[string]struct {
		files map[string]string
		want  float64
		ok    bool
	}{
		"v1":             {map[string]string{"memory.usage_in_bytes": "1000\n", "memory.stat": "cache 5\ninactive_file 1\ntotal_inactive_file 300\n"}, 700, true},
		"v2":             {map[string]string{"memory.current": "1000\n", "memory.stat": "anon 5\ninactive_file 1200\n"}, 0, true},
		"no stat":        {map[string]string{"memory.current": "1000\n"}, 0, false},
		"no number":      {map[string]string{"memory.current": "much\n", "memory.stat": "inactive_file 1\n"}, 0, false},
		"nothing at all": {nil, 0, false},
	} {
		folder := t.TempDir()
		for name, text := range c.files {
			repotest.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
		}
		if got, ok := workingSet(folder); got != c.want || ok != c.ok {
			t.Errorf("%s: %v, %v", what, got, ok)
		}
	}
}

// The threads of a process that is there have waited for some time, if the kernel
// counts it; those of one that is not have not.
func TestWaited(t *testing.T) {
	if _, err := os.Stat("/proc/self/schedstat"); err == nil {
		if s, ok := runQueueWait(os.Getpid()); !ok || s < 0 {
			t.Errorf("%v, %v", s, ok)
		}
	}
	if s, ok := runQueueWait(1 << 30); ok {
		t.Errorf("nobody waited %v s", s)
	}
}
