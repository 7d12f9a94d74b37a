package usage

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// runQueueWait returns the seconds for which the threads of a process were ready to run
// and had no core, their limits' doing among it; false where the kernel keeps no
// such count. What ended threads have waited is not in it.
func runQueueWait(pid int) (seconds float64, ok bool) {
	folder := procFile(pid, "task")
	threads, err := os.ReadDir(folder)
	if err != nil {
		return 0, false
	}
	for _, t := range threads {
		raw, err := os.ReadFile(filepath.Join(folder, t.Name(), "schedstat"))
		if err != nil {
			continue // it has ended meanwhile
		}
		if s, read := parseSchedstat(raw); read {
			seconds, ok = seconds+s, true
		}
	}
	return seconds, ok
}

// parseSchedstat takes the second of a thread's three numbers: the nanoseconds
// that it spent on a run queue (Documentation/scheduler/sched-stats.rst).
func parseSchedstat(raw []byte) (seconds float64, ok bool) {
	fields := bytes.Fields(raw)
	if len(fields) != 3 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(fields[1]), 10, 64)
	return float64(n) / 1e9, err == nil
}

// limitHits returns how often the memory of a cgroup came up against its limit,
// so that the kernel had to take pages away first: memory.failcnt in v1, max of
// memory.events in v2, without what groups below it did where the kernel tells.
func limitHits(folder string) (float64, bool) {
	if raw, err := os.ReadFile(filepath.Join(folder, "memory.failcnt")); err == nil {
		n, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
		return n, err == nil
	}
	raw, err := os.ReadFile(filepath.Join(folder, "memory.events.local"))
	if err != nil {
		raw, err = os.ReadFile(filepath.Join(folder, "memory.events"))
	}
	if err != nil {
		return 0, false
	}
	return numberNamed(string(raw), "max")
}

// workingSet returns the bytes of a cgroup that the kernel could not simply take
// away: what is charged to it without the files that nobody has looked at lately,
// as kubelets have it.
func workingSet(folder string) (float64, bool) {
	raw, err := os.ReadFile(filepath.Join(folder, "memory.usage_in_bytes"))
	idle := "total_inactive_file"
	if err != nil {
		raw, err = os.ReadFile(filepath.Join(folder, "memory.current"))
		idle = "inactive_file"
	}
	if err != nil {
		return 0, false
	}
	charged, err := strconv.ParseFloat(strings.TrimSpace(string(raw)), 64)
	if err != nil {
		return 0, false
	}
	if raw, err = os.ReadFile(filepath.Join(folder, "memory.stat")); err != nil {
		return 0, false
	}
	files, ok := numberNamed(string(raw), idle)
	return max(0, charged-files), ok
}

// numberNamed returns the number behind a name at the begin of a line.
func numberNamed(text, name string) (float64, bool) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseFloat(f[1], 64)
			return n, err == nil
		}
	}
	return 0, false
}
