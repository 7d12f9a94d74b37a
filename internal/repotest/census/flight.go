package census

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// Ending is a way in which a run ends.
type Ending struct {
	Name    string
	signals []os.Signal
}

// Endings are: it finishes, Ctrl-C, what GNU timeout does, and kill -9 with a clean after it.
func Endings() []Ending {
	return []Ending{
		{Name: "finished"},
		{"Ctrl-C", []os.Signal{os.Interrupt}},
		{"timeout", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{"kill -9 and clean", []os.Signal{os.Kill}},
	}
}

// Flight is a run in a cluster of others.
type Flight struct {
	Bin, Kubeconfig, Dir string
	Args                 []string // of the verb run, without --kubeconfig
	Until                string   // the step after whose begin it is ended; one that is over before ends by itself
	Before               Census   // of the cluster
	MayRefuse            bool     // the run may end with 3: what it asks for is not to be had in a cluster of others
}

// Fly flies once, ends it, and compares the census with the one before. What the cluster's own
// controllers still have to do, such as an APIService of a definition that is gone, is waited for.
func (f Flight) Fly(t testing.TB, e Ending) {
	t.Helper()
	before := f.processes()
	code, said := f.run(t, e)
	if code == 3 && !f.MayRefuse || code != 3 && len(e.signals) == 2 && code != 2 {
		t.Errorf("%s: exit code %d\n%s", e.Name, code, said)
	}
	if strings.HasPrefix(e.Name, "kill") {
		// Its subjects end some moments after it: what they made later nobody would find.
		repotest.Eventually(t, "the processes of the run are gone", func() bool { return f.processes() <= before })
		clean := exec.Command(f.Bin, "clean", "--kubeconfig", f.Kubeconfig, "--yes")
		if out, err := clean.CombinedOutput(); err != nil {
			t.Errorf("clean: %v\n%s", err, out)
		}
	}
	var differences []string
	same := func() bool {
		now, err := Take(t.Context(), f.Kubeconfig)
		if err != nil {
			differences = []string{err.Error()}
			return false
		}
		differences = f.Before.Differences(now)
		return len(differences) == 0
	}
	repotest.Eventually(t, "the cluster is as it was after "+e.Name, same, func() any { return strings.Join(differences, "\n") + "\n" + said })
}

func (f Flight) run(t testing.TB, e Ending) (code int, said string) {
	t.Helper()
	cmd := exec.Command(f.Bin, append([]string{"run", "--kubeconfig", f.Kubeconfig, "--max-neighbours", "95%"}, f.Args...)...)
	cmd.Dir = f.Dir
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	over := false
	poll := func() bool {
		select {
		case err = <-ended:
			over = true
		default:
		}
		return over
	}
	if len(e.signals) > 0 {
		for !poll() && !f.begun() {
			time.Sleep(50 * time.Millisecond) // go test bounds it: a busy machine boots subjects slowly
		}
		for _, s := range e.signals {
			_ = cmd.Process.Signal(s)
		}
	}
	if !over {
		err = <-ended
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), out.String()
	}
	return 0, out.String()
}

// begun reports whether the run has begun the step Until: its records say so. What it prints
// has no line for a step that is over within a moment.
func (f Flight) begun() bool {
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
	return regexp.MustCompile(`(?s)step-begin.` + regexp.QuoteMeta(f.Until)).Match(raw)
}

// processes counts those of the binary.
func (f Flight) processes() (n int) {
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
