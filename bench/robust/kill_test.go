package robust

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// killed is flown again and again: a plane, nodes, pods, a hook that would outlive
// its parent, and calls all the time.
const killed = `scenario: killed
seed: 7
preflight: {wait: 100ms, tolerate: [leftover, terminating, queue, retries, cpu, heap, store, probe-write, host, unread]}
fleet: {nodes: 3}
bodies:
  map: {text: "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Name }}'}, data: {a: '{{ payload 500 }}'}}"}
steps:
- {name: fill, create: {body: map, count: 60, pace: {constant: 20}}}
- {name: hook, onFailure: continue, exec: {command: [sh, -c, "sleep 1.5"]}}
- {name: clear, delete: {step: fill, pace: {constant: 40}}}
`

// lossWindow is what a kill may cost: the last second of the records, and the time
// between two calls of the scenario.
const lossWindow = time.Second + 100*time.Millisecond

// leftover is what a killed run had made. Numbers of processes come again within the
// time of this test: begun tells them apart.
type leftover struct{ path, begun string }

func process(pid int) leftover {
	path := fmt.Sprint("/proc/", pid)
	return leftover{path, begun(path)}
}

// begun returns field 22 of /proc/PID/stat (proc(5)), behind the name in brackets; empty
// where there is none.
func begun(path string) string {
	raw, _ := os.ReadFile(filepath.Join(path, "stat"))
	_, behind, _ := strings.Cut(string(raw), ") ")
	if fields := strings.Fields(behind); len(fields) > 19 {
		return fields[19]
	}
	return ""
}

func (l leftover) there() bool {
	_, err := os.Lstat(l.path)
	return err == nil && begun(l.path) == l.begun
}

// kills counts how runs ended.
type kills struct {
	t       *testing.T
	bin     string // of its own path, by which its processes are known
	dir     string
	left    []leftover // folders, control groups and processes that only the next start removes
	whole   time.Duration
	killed  map[string]int // by whom
	phases  map[string]int // by where the run stood
	records int            // runs whose records were looked at
	faults  []string
}

// TestKilledAtAnyMoment kills windtunnel, its reaper, or both, at seeded moments over
// boot, flight, conclusion and judgement. Nothing is left behind, at the latest after
// the next start; every record older than a second is there; judge never ends with 3.
func TestKilledAtAnyMoment(t *testing.T) {
	seed := repotest.Robust(t)
	times := repotest.Times(t, "WINDTUNNEL_KILLS", 200)
	k := &kills{t: t, dir: t.TempDir(), killed: map[string]int{}, phases: map[string]int{}}
	k.bin = filepath.Join(k.dir, "windtunnel")
	raw, err := os.ReadFile(repotest.Binary(t))
	if err == nil {
		err = os.WriteFile(k.bin, raw, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(k.dir, "s.yaml"), []byte(killed), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	k.undisturbed()
	chance := rand.New(rand.NewPCG(seed, 0))
	for i := range times {
		k.once(i, chance)
	}
	k.undisturbed() // the next start after the last kill
	for phase, n := range k.phases {
		t.Logf("killed in phase %-12s %d", phase, n)
	}
	t.Logf("seed %d: %d kills (%v), %d with records to look at, %d faults", seed, times, k.killed, k.records, len(k.faults))
	for _, fault := range k.faults {
		t.Error(fault)
	}
}

func (k *kills) faulty(format string, args ...any) {
	k.faults = append(k.faults, fmt.Sprintf(format, args...))
}

func (k *kills) command(args ...string) *exec.Cmd {
	c := exec.Command(k.bin, args...)
	c.Dir = k.dir
	return c
}

// undisturbed flies to the end, measures how long that takes, and looks that nothing
// is left, of earlier kills either.
func (k *kills) undisturbed() {
	k.t.Helper()
	begin := time.Now()
	out, err := k.command("run", "s.yaml", "--out", filepath.Join(k.dir, "whole-"+strconv.Itoa(len(k.killed)))).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() >= 3) { // a busy machine has its doubts
		k.t.Fatalf("%v\n%s", err, out)
	}
	k.whole = time.Since(begin)
	k.nothingLeft("a run that was left alone")
}

// once kills one run.
func (k *kills) once(i int, chance *rand.Rand) {
	whom := []string{"windtunnel", "reaper", "both"}[i%3]
	after := time.Duration(chance.Float64() * float64(k.whole))
	name := fmt.Sprintf("kill %d of %s after %v", i, whom, after.Round(time.Millisecond))
	run := filepath.Join(k.dir, "run")
	if err := os.RemoveAll(run); err != nil {
		k.t.Fatal(err)
	}
	c := k.command("run", "s.yaml", "--out", run)
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	time.Sleep(after)
	before := k.left
	k.left = nil
	k.noteFolders(c.Process.Pid)
	reaper := k.processes()["reaper"]
	if whom != "windtunnel" && reaper > 0 {
		_ = syscall.Kill(reaper, syscall.SIGKILL)
	}
	if whom != "reaper" {
		_ = c.Process.Kill()
	}
	at := time.Now()
	_ = c.Wait()
	k.killed[whom]++
	if whom == "both" {
		k.awaitNoProcess(name)
	} else {
		k.nothingLeft(name)
	}
	k.left = append(k.left, before...) // the next start that gets as far removes them: the last one is left alone
	k.look(name, run, at, whom != "reaper")
}

// look judges what a killed run left, and looks how much of the records is there.
func (k *kills) look(name, run string, at time.Time, dead bool) {
	_, manifest, err := record.OpenDir(run)
	if errors.Is(err, record.ErrNotRun) || errors.Is(err, fs.ErrNotExist) {
		k.phases["before a run"]++
		return
	}
	if err != nil {
		k.faulty("%s: %v", name, err)
		return
	}
	var exit *exec.ExitError
	if out, err := k.command("judge", run).CombinedOutput(); errors.As(err, &exit) && (exit.ExitCode() >= 3 || exit.ExitCode() < 0) {
		k.faulty("%s: judge: %v: %s", name, err, out)
	}
	phase, last, due := "boot", time.Time{}, false
	_, err = record.Read(filepath.Join(run, record.StreamFile), func(s *record.Stream) record.Visitor {
		return record.Visitor{
			Event: func(e record.Event) {
				switch e.Type {
				case record.EventStepBegan:
					phase, due = e.Name, e.Name == "fill" || e.Name == "clear"
					last = manifest.Started.Add(time.Duration(e.At)) // the calls before ended with their step
				case record.EventStepEnded:
					due = false
				case record.EventRunEnded:
					phase, due = "conclusion", false
				}
			},
			Call: func(c record.Call) {
				if s.Ops[c.Op].Source == "load" {
					last = manifest.Started.Add(time.Duration(c.Done))
				}
			},
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.faulty("%s: records: %v", name, err)
	}
	k.phases[phase]++
	if dead && due {
		if k.records++; at.Sub(last) > lossWindow {
			k.faulty("%s: the last of the records is %v older than the kill, in step %s", name, at.Sub(last), phase)
		}
	}
}

// noteFolders remembers the private folders of a process and what their ledgers name.
func (k *kills) noteFolders(pid int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		path, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(filepath.Base(path), "windtunnel-run-") {
			continue
		}
		k.left = append(k.left, leftover{path: path})
		ledger, err := os.Open(filepath.Join(path, "ledger"))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(ledger); lines.Scan(); {
			var entry struct {
				PID         int
				Cgroup, Dir string
			}
			if json.Unmarshal(lines.Bytes(), &entry) == nil {
				if entry.PID > 0 {
					k.left = append(k.left, process(entry.PID))
				}
				for _, made := range []string{entry.Cgroup, entry.Dir} {
					if made != "" && made != path {
						k.left = append(k.left, leftover{path: made})
					}
				}
			}
		}
		_ = ledger.Close()
	}
}

// processes returns the pids of the binary's processes, by their first argument.
func (k *kills) processes() map[string]int {
	out := map[string]int{}
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err != nil || exe != k.bin {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		if fields := strings.Split(string(args), "\x00"); len(fields) > 1 {
			out[fields[1]] = pid
		}
	}
	return out
}

// goneWithin is how long what was killed may take to be cleaned up after.
const goneWithin = 30 * time.Second

func (k *kills) await(name, what string, gone func() (left any, ok bool)) {
	var left any
	for deadline := time.Now().Add(goneWithin); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if left, ok = gone(); ok {
			return
		}
	}
	k.faulty("%s: %s left: %v", name, what, left)
}

func (k *kills) awaitNoProcess(name string) {
	k.await(name, "processes", func() (any, bool) { all := k.processes(); return all, len(all) == 0 })
}

func (k *kills) nothingLeft(name string) {
	k.awaitNoProcess(name)
	k.await(name, "folders, control groups and processes", func() (any, bool) {
		var there []string
		for _, l := range k.left {
			if l.there() {
				there = append(there, l.path)
			}
		}
		return there, len(there) == 0
	})
	k.left = nil
}
