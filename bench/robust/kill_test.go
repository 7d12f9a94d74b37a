package robust

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/record"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// killed is flown again and again: a plane, nodes, pods, a hook that would outlive
// its parent, and calls all the time. Its objective cannot hold: whatever passes is wrong.
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
objectives:
- {name: cannot hold, query: vector(1), max: 0}
`

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

// kills counts how runs ended.
type kills struct {
	t       *testing.T
	room    *room
	bin     string
	groups  map[string]bool // control groups that the runs have made
	pending map[string]bool // what only the next start removes
	whole   int64           // bytes of the records of a run that was left alone
	killed  map[string]int  // by whom
	phases  map[string]int  // by where the run stood
	records int             // runs whose records were looked at
	faults  []string
}

// TestKilledAtAnyMoment kills windtunnel, its reaper, or both, at seeded moments over
// boot, flight, conclusion and judgement, in a PID namespace of its own. A moment is what a run
// has done so far, which its files show, and not a time: the same one on any machine. Nothing
// that lives or lies there is left behind, at the latest after the next start; every record
// that was written is there; judge never ends with 3, and never passes.
func TestKilledAtAnyMoment(t *testing.T) {
	seed := repotest.Robust(t)
	times := repotest.Times(t, "WINDTUNNEL_KILLS", 200)
	dir := t.TempDir()
	k := &kills{t: t, bin: repotest.Binary(t), groups: map[string]bool{}, pending: map[string]bool{}, killed: map[string]int{}, phases: map[string]int{}}
	repotest.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(killed), 0o600))
	k.room = newRoom(t, dir)
	k.undisturbed("first")
	chance := rand.New(rand.NewPCG(seed, 0))
	for i := range times {
		k.once(i, chance)
	}
	k.undisturbed("last") // the next start after the last kill
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

// undisturbed flies to the end, measures how long that takes, and looks that nothing
// is left, of earlier kills either.
func (k *kills) undisturbed(name string) {
	k.t.Helper()
	k.room.start(k.bin, "run", "s.yaml", "--out", name)
	if code := k.room.end(); code != 1 && code != 2 { // a busy machine has its doubts
		k.t.Fatalf("exit code %d\n%s", code, k.room.said())
	}
	k.whole = recordsIn(filepath.Join(k.room.dir, name))
	k.pending = map[string]bool{}
	k.nothingLeft("the " + name + " run, which was left alone")
}

// once kills one run.
func (k *kills) once(i int, chance *rand.Rand) {
	whom := []string{"windtunnel", "reaper", "both"}[i%3]
	moment, reached := k.drawMoment(chance)
	name := fmt.Sprintf("kill %d of %s at %s", i, whom, moment)
	run := filepath.Join(k.room.dir, "run")
	repotest.NoError(k.t, os.RemoveAll(run))
	pid := k.room.start(k.bin, "run", "s.yaml", "--out", run)
	for running := begun(fmt.Sprint("/proc/", pid)); running != "" && begun(fmt.Sprint("/proc/", pid)) == running && !reached(run); {
		time.Sleep(time.Millisecond) // until the moment has come, or the run has ended before it
	}
	k.noteGroups(pid)
	written := callsIn(run)
	k.kill(whom, pid)
	if code := k.room.end(); code == 0 || code > 2 {
		k.faulty("%s: exit code %d: %s", name, code, k.room.said())
	}
	k.killed[whom]++
	if whom == "both" {
		k.await(name, func(all map[string]bool) bool { return !isOf(all, "process") })
		maps.Copy(k.pending, k.left())
	} else {
		k.nothingLeft(name)
	}
	k.look(name, run, written)
}

// drawMoment returns a moment of a run by chance, and what tells that it has come: the run has
// a process, a folder, a part of its records, or one of the files of its conclusion.
func (k *kills) drawMoment(chance *rand.Rand) (name string, reached func(run string) bool) {
	switch n := chance.IntN(10); n {
	case 0:
		return "its start", func(string) bool { return true }
	case 1, 2, 3:
		file := []string{"manifest.json", "verdict.json", "report.html"}[n-1]
		return file, func(run string) bool {
			_, err := os.Lstat(filepath.Join(run, file))
			return err == nil
		}
	}
	size := 1 + chance.Int64N(k.whole)
	return fmt.Sprintf("%d bytes of records", size), func(run string) bool { return recordsIn(run) >= size }
}

// recordsIn is how many bytes of records a run has written.
func recordsIn(run string) int64 {
	info, err := os.Stat(filepath.Join(run, record.StreamFile))
	if err != nil {
		return 0
	}
	return info.Size()
}

// kill ends the run with that number, its reaper, or both.
func (k *kills) kill(whom string, run int) {
	for pid, p := range k.room.processes() {
		if reaper := len(p.args) > 1 && p.args[1] == "reaper"; reaper && whom != "windtunnel" || pid == run && whom != "reaper" {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// callsIn is how many calls the records of a run have.
func callsIn(run string) (n int) {
	_, _ = record.Read(filepath.Join(run, record.StreamFile), func(*record.Stream) record.Visitor { // there may be no stream yet
		return record.Visitor{Call: func(record.Call) { n++ }}
	})
	return n
}

// look judges what a killed run left, and looks whether the calls are there that could be read
// before the kill.
func (k *kills) look(name, run string, written int) {
	_, _, err := record.OpenDir(run)
	if errors.Is(err, record.ErrNotRun) || errors.Is(err, fs.ErrNotExist) {
		k.phases["before a run"]++
		return
	}
	if err != nil {
		k.faulty("%s: %v", name, err)
		return
	}
	k.room.start(k.bin, "judge", run)
	if code := k.room.end(); code != 1 && code != 2 {
		k.faulty("%s: judge ends with %d: %s", name, code, k.room.said())
	}
	phase := "boot"
	_, err = record.Read(filepath.Join(run, record.StreamFile), func(*record.Stream) record.Visitor {
		return record.Visitor{
			Event: func(e record.Event) {
				switch e.Type {
				case record.EventStepBegan:
					phase = e.Name
				case record.EventRunEnded:
					phase = "conclusion"
				}
			},
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.faulty("%s: records: %v", name, err)
	}
	k.phases[phase]++
	if written > 0 {
		if k.records++; callsIn(run) < written {
			k.faulty("%s: the records have %d calls, and had %d before the kill", name, callsIn(run), written)
		}
	}
}

// noteGroups remembers the control groups that the ledgers of a process name.
func (k *kills) noteGroups(pid int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		path, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(filepath.Base(path), "windtunnel-run-") {
			continue
		}
		raw, _ := os.ReadFile(filepath.Join(fmt.Sprintf("/proc/%d/root", pid), path, "ledger"))
		for line := range strings.Lines(string(raw)) {
			var entry struct{ Cgroup string }
			if json.Unmarshal([]byte(line), &entry) == nil && entry.Cgroup != "" {
				k.groups[entry.Cgroup] = true
			}
		}
	}
}

// left returns what is in the room, and the control groups that are there.
func (k *kills) left() map[string]bool {
	all := k.room.left()
	for group := range k.groups {
		if _, err := os.Lstat(group); err == nil {
			all["control group "+group] = true
		}
	}
	return all
}

// isOf tells whether there is one of a kind.
func isOf(all map[string]bool, kind string) bool {
	for name := range all {
		if strings.HasPrefix(name, kind+" ") {
			return true
		}
	}
	return false
}

func (k *kills) await(name string, gone func(left map[string]bool) bool) {
	var left map[string]bool
	if !repotest.Met(func() bool { left = k.left(); return gone(left) }) {
		k.faulty("%s: left are %v", name, slices.Sorted(maps.Keys(left)))
	}
}

// nothingLeft waits until all is gone but what the next start removes, if it gets as far.
func (k *kills) nothingLeft(name string) {
	k.await(name, func(left map[string]bool) bool {
		maps.DeleteFunc(left, func(what string, _ bool) bool { return k.pending[what] })
		return len(left) == 0
	})
}
