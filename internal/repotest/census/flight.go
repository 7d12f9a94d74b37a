package census

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Ending is a way in which a run ends.
type Ending struct {
	Name      string
	Fails     bool        // the scenario has an objective that cannot hold
	Cleans    bool        // the run cannot take away what it made: clean does
	planeDies bool        // for as long as the run lives
	signals   []os.Signal // sent together
}

// Endings are: it passes, or would on a quiet machine; an objective fails; Ctrl-C; what GNU
// timeout does; kill -9; and Ctrl-C while the cluster's API server is dead.
func Endings() []Ending {
	return []Ending{
		{Name: "pass"},
		{Name: "fail", Fails: true},
		{Name: "ctrl-c", signals: []os.Signal{os.Interrupt}},
		{Name: "timeout", signals: []os.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{Name: "kill", Cleans: true, signals: []os.Signal{os.Kill}},
		{Name: "plane-killed", Cleans: true, planeDies: true, signals: []os.Signal{os.Interrupt}},
	}
}

// isEarly tells an ending in the midst of a run.
func (e Ending) isEarly() bool { return len(e.signals) > 0 }

// Flight is a run in a cluster of others.
type Flight struct {
	Bin, Kubeconfig, Dir string
	Args                 []string                       // of the verb run, without --kubeconfig
	Until                string                         // the step after whose begin it is ended; empty: any
	Before               Census                         // of the cluster
	KillPlane            func(testing.TB) (back func()) // kills the cluster's API server until back; for endings in which it dies
}

// Result is what came of a flight.
type Result struct {
	Code        int    // exit code; -1: killed
	Said        string // by the run, and by clean where that was asked for
	Faults      []string
	Differences []string // of the census, and what clean could not do
}

// Fly flies once, ends it, and reports what is not as it should be.
func (f Flight) Fly(t testing.TB, e Ending) Result {
	t.Helper()
	r := f.flyOnce(t, e)
	for _, fault := range slices.Concat(r.Faults, r.Differences) {
		t.Errorf("%s: %s", e.Name, fault)
	}
	if len(r.Faults)+len(r.Differences) > 0 {
		t.Log(r.Said)
	}
	return r
}

func (f Flight) flyOnce(t testing.TB, e Ending) (r Result) {
	t.Helper()
	before := f.countProcesses()
	r.runUntilEnding(t, f, e)
	if e.Cleans {
		// Its subjects end some moments after it: what they made later nobody would find.
		repotest.Eventually(t, "the processes of the run are gone", func() bool { return f.countProcesses() <= before })
		out, err := exec.Command(f.Bin, "clean", "--kubeconfig", f.Kubeconfig, "--yes").CombinedOutput()
		if err != nil {
			r.Differences = append(r.Differences, "clean: "+err.Error())
		}
		r.Said += string(out)
	}
	r.Differences = append(r.Differences, f.awaitDifferences(t)...)
	return r
}

// maxLooks is how often a census is taken, a second apart, until it is as before.
const maxLooks = 60

// awaitDifferences compares the census with the one before. What the cluster's own controllers still
// have to do, such as an APIService of a definition that is gone, is waited for.
func (f Flight) awaitDifferences(t testing.TB) (all []string) {
	for range maxLooks {
		now, err := Take(t.Context(), f.Kubeconfig)
		if err != nil {
			all = []string{err.Error()}
		} else if all = f.Before.Differences(now); len(all) == 0 {
			return nil
		}
		time.Sleep(time.Second)
	}
	return all
}

// runUntilEnding flies until the ending, and finds fault with how the run takes it.
func (r *Result) runUntilEnding(t testing.TB, f Flight, e Ending) {
	t.Helper()
	said := &output{}
	cmd := exec.Command(f.Bin, append([]string{"run", "--kubeconfig", f.Kubeconfig, "--max-neighbours", "95%"}, f.Args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.Dir, said, said
	repotest.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if e.isEarly() && f.awaitStep(ended) {
		if e.planeDies {
			defer f.KillPlane(t)()
		}
		for _, s := range e.signals {
			_ = cmd.Process.Signal(s)
		}
	} else if e.isEarly() {
		r.Faults = append(r.Faults, "the run was over before it could be ended in its midst")
	}
	var exit *exec.ExitError
	if err := <-ended; errors.As(err, &exit) {
		r.Code = exit.ExitCode()
	}
	r.Said = said.String()
	r.Faults = append(r.Faults, e.findFaults(r.Code, r.Said)...)
}

// awaitStep waits until the run is in the step, and reports whether it comes so far: its end is
// put back. go test bounds it, as a busy machine boots subjects slowly.
func (f Flight) awaitStep(ended chan error) bool {
	for !f.hasBegunStep() {
		select {
		case err := <-ended:
			ended <- err
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
	return true
}

// findFaults says what is wrong with an exit code and with what the run said.
func (e Ending) findFaults(code int, said string) (out []string) {
	unwanted := code != 2 // ended early, it is unknown
	switch {
	case slices.Contains(e.signals, os.Kill):
		unwanted = code != -1
	case e.Fails: // or unknown: a busy machine, and what a cluster of others cannot give
		unwanted = code != 1 && code != 2
	case !e.isEarly():
		unwanted = code < 0 || code > 2
	}
	if unwanted {
		out = append(out, "exit code "+strconv.Itoa(code))
	}
	if e.planeDies && !strings.Contains(said, "windtunnel clean --kubeconfig") {
		out = append(out, "the run does not say how to remove what it left")
	}
	if strings.Contains(said, "windtunnel has a fault") || strings.Contains(said, "\ngoroutine ") {
		out = append(out, "it panicked")
	}
	return out
}

// hasBegunStep reports whether the run has begun the step Until: its records say so. What it prints
// has no line for a step that is over within a moment.
func (f Flight) hasBegunStep() bool {
	at := slices.Index(f.Args, "--out")
	if at < 0 || at+1 == len(f.Args) {
		return false
	}
	out := f.Args[at+1]
	if !filepath.IsAbs(out) {
		out = filepath.Join(f.Dir, out)
	}
	raw, _ := os.ReadFile(filepath.Join(out, "records.wt")) // there may be none yet
	// An event has its type, the length of its name, and its name.
	name := "."
	if f.Until != "" {
		name = regexp.QuoteMeta(string(rune(len(f.Until))) + f.Until)
	}
	return regexp.MustCompile("(?s)step-begin" + name).Match(raw)
}

// countProcesses counts those of the binary.
func (f Flight) countProcesses() (n int) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		if exe, err := os.Readlink("/proc/" + e.Name() + "/exe"); err == nil && exe == f.Bin {
			n++
		}
	}
	return n
}

// output gathers what a process says while it says it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// CannotHold gives a scenario an objective that no run meets, whatever the plane does.
func CannotHold(text string) string {
	const objective = "objectives:\n- {name: cannot hold, query: vector(1), max: 0}\n"
	if before, after, ok := strings.Cut(text, "\nobjectives:"); ok {
		_, list, _ := strings.Cut(after, "\n") // behind a comment of the key
		return before + "\n" + objective + list
	}
	return text + objective
}

// KillAPIServer kills the kube-apiserver of a cluster that the verb up of a binary has
// started, and starts it again with back.
func KillAPIServer(t testing.TB, bin, kubeconfig string) (back func()) {
	t.Helper()
	cmd := exec.Command(bin, "fault", "kill", "kube-apiserver", "--folder", filepath.Dir(kubeconfig))
	said := Start(t, cmd, filepath.Join(t.TempDir(), "said"))
	repotest.Eventually(t, "kube-apiserver is killed", func() bool { return strings.Contains(said(), "began") }, func() any { return said() })
	return func() {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Errorf("kube-apiserver was not started again: %v\n%s", err, said())
		}
		repotest.Eventually(t, "kube-apiserver answers again", func() bool {
			_, err := Take(t.Context(), kubeconfig)
			return err == nil
		}, func() any { return said() })
	}
}

// Start starts a command whose output goes to a file, and returns what reads it.
func Start(t testing.TB, cmd *exec.Cmd, name string) (said func() string) {
	t.Helper()
	file := repotest.Must(os.Create(name))(t)
	defer file.Close() // the command has a descriptor of its own
	cmd.Stdout, cmd.Stderr = file, file
	repotest.NoError(t, cmd.Start())
	return func() string {
		raw, _ := os.ReadFile(file.Name())
		return string(raw)
	}
}
