package usage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/clock"
	"github.com/windtunnel/windtunnel/internal/kernel"
	"github.com/windtunnel/windtunnel/internal/unit"
)

// ticks is how many of /proc's clock ticks a second has: USER_HZ, which is 100
// on every architecture that Go's Linux port runs on but alpha.
const ticks = 100

// ErrGone says that a process has ended.
var ErrGone = errors.New("the process has ended")

// usage is what a process has used until now.
type usage struct {
	at             clock.Time // when cpu was read: on a busy machine the rest may take long
	cpu            float64    // seconds, user and system
	resident, peak uint64     // bytes
}

// readUsage reads a process's usage. Its CPU time has a resolution of 10 ms, that
// of the calling process one of a microsecond.
func readUsage(pid int, now func() clock.Time) (usage, error) {
	u, err := readStat(pid)
	if err != nil {
		return u, err
	}
	if pid == os.Getpid() {
		used, err := kernel.OwnCPU()
		if err != nil {
			return u, fmt.Errorf("read own usage: %w", err)
		}
		u.cpu = used.Seconds()
	}
	u.at = now()
	raw, err := os.ReadFile(procFile(pid, "status"))
	if err != nil {
		return u, wrapGone(pid, err)
	}
	u.resident, u.peak = parseKilobytes(raw, "VmRSS:"), parseKilobytes(raw, "VmHWM:")
	if u.resident == 0 {
		return u, fmt.Errorf("process %d: %w", pid, ErrGone) // a zombie has no memory
	}
	return u, nil
}

func procFile(pid int, name string) string {
	return filepath.Join("/proc", strconv.Itoa(pid), name)
}

func wrapGone(pid int, err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d: %w", pid, ErrGone)
	}
	return fmt.Errorf("read usage of process %d: %w", pid, err)
}

// readStat reads the CPU time from /proc/PID/stat (proc_pid_stat(5), fields 14
// and 15, counted after the name in brackets, which may hold anything).
func readStat(pid int) (usage, error) {
	raw, err := os.ReadFile(procFile(pid, "stat"))
	if err != nil {
		return usage{}, wrapGone(pid, err)
	}
	cpu, err := parseStat(raw)
	if err != nil {
		return usage{}, fmt.Errorf("read usage of process %d: %w", pid, err)
	}
	return usage{cpu: cpu}, nil
}

func parseStat(raw []byte) (cpu float64, err error) {
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("stat has only %s", unit.Count(len(fields), "fields"))
	}
	for _, f := range fields[11:13] {
		n, err := strconv.ParseUint(string(f), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("stat: %w", err)
		}
		cpu += float64(n) / ticks
	}
	return cpu, nil
}

// parseKilobytes returns the bytes of a line such as "VmRSS:  1234 kB"; 0 without it.
func parseKilobytes(status []byte, name string) uint64 {
	_, rest, ok := bytes.Cut(status, []byte(name))
	if !ok {
		return 0
	}
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n * 1024
}

// hostSeconds reads the seconds of all cores by what they did from /proc/stat
// (proc_stat(5)); nothing where it cannot be read.
func hostSeconds() map[string]float64 {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return nil
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	return parseHost(line)
}

func parseHost(line string) map[string]float64 {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return nil
	}
	out := map[string]float64{}
	for i, mode := range []string{"user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"} {
		n, err := strconv.ParseUint(fields[i+1], 10, 64)
		if err != nil {
			return nil
		}
		out[mode] = float64(n) / ticks
	}
	return out
}

// throttle is how a cgroup's CPU limit bit.
type throttle struct{ seconds, throttled, periods float64 }

// readThrottling reads cpu.stat of a cgroup folder, of v1 (throttled_time, in
// nanoseconds) or v2 (throttled_usec).
func readThrottling(folder string) (throttle, bool) {
	raw, err := os.ReadFile(filepath.Join(folder, "cpu.stat"))
	if err != nil {
		return throttle{}, false
	}
	return parseThrottle(raw)
}

func parseThrottle(raw []byte) (t throttle, ok bool) {
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), " ")
		v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		if err != nil {
			continue
		}
		switch name {
		case "nr_periods":
			t.periods, ok = v, true
		case "nr_throttled":
			t.throttled = v
		case "throttled_time":
			t.seconds = v / 1e9
		case "throttled_usec":
			t.seconds = v / 1e6
		}
	}
	return t, ok
}
