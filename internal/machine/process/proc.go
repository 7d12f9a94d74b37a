package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// stat is what /proc/PID/stat says of a process.
type stat struct {
	state byte   // R, S, D, Z ...
	group int    // process group
	start uint64 // clock ticks between boot and its start: with the pid it names a process for good
}

var errStat = errors.New("not the form of /proc/PID/stat")

// parseStat reads the line. The command's name stands in brackets and may hold
// anything, so the fields are counted from the last bracket.
func parseStat(line string) (stat, error) {
	_, rest, ok := cutLast(line, ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return stat{}, errStat
	}
	group, err := strconv.Atoi(fields[2])
	if err != nil {
		return stat{}, errStat
	}
	start, err := strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return stat{}, errStat
	}
	return stat{state: fields[0][0], group: group, start: start}, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func statOf(pid int) (stat, error) { return readStat(fmt.Sprintf("/proc/%d/stat", pid)) }

func readStat(path string) (stat, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return stat{}, err
	}
	return parseStat(string(raw))
}

// bootID names the boot of this machine; empty where it cannot be read.
func bootID() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(raw))
}

// sameBoot tells whether what was written down then is of this boot: process
// numbers and ticks of another mean other processes. What does not say counts as
// of this one.
func sameBoot(then string) bool {
	now := bootID()
	return then == "" || now == "" || then == now
}

// isAlive says whether the process that was started at start still runs; a
// zombie does not.
func isAlive(pid int, start uint64) bool {
	s, err := statOf(pid)
	return err == nil && s.start == start && s.state != 'Z' && s.state != 'X'
}

// isStopped says whether no thread of a process runs.
func isStopped(pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		if s, err := readStat(path); err == nil && !strings.ContainsRune("TtZX", rune(s.state)) {
			return false
		}
	}
	return err == nil
}

// killGroup kills the process and those of its group. It signals nobody when
// the number is another process's by now; when the leader is gone its group
// keeps the number for as long as it has members.
func killGroup(pid int, start uint64) {
	s, err := statOf(pid)
	if err == nil && s.start != start {
		return
	}
	if err == nil && s.group != pid {
		_ = kernel.Kill(pid, syscall.SIGKILL)
		return
	}
	for _, member := range membersOf(pid) {
		if m, err := statOf(member); err == nil && m.group == pid && m.start >= start {
			_ = kernel.Kill(member, syscall.SIGKILL)
		}
	}
}

// InGroup names the processes of a process group: "sleep (pid 12)".
func InGroup(group int) (names []string) {
	for _, pid := range membersOf(group) {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		if err == nil { // else it has just ended
			names = append(names, fmt.Sprintf("%s (pid %d)", strings.TrimSpace(string(comm)), pid))
		}
	}
	return names
}

// membersOf returns the processes of a process group.
func membersOf(group int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil && s.group == group && s.state != 'Z' {
			out = append(out, pid)
		}
	}
	return out
}
