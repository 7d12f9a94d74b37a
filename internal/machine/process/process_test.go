package process_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// The test binary is its own child processes: the first argument says which.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case process.ReaperArg:
			os.Exit(process.ReaperMain(os.Stdin))
		case "child":
			os.Exit(child(os.Args[2], os.Args[3:]))
		}
	}
	os.Exit(m.Run())
}

func child(mode string, args []string) int {
	switch mode {
	case "talk-and-die":
		for i := range 20 {
			fmt.Println("line", i)
		}
		fmt.Fprintln(os.Stderr, "out of luck")
		return 3
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Minute)
	case "deaf":
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		fmt.Println("ready")
		time.Sleep(time.Minute)
	case "leave-a-child":
		fmt.Println("child", startSleeper())
		return 0
	case "hold-a-child":
		fmt.Println("child", startSleeper())
		time.Sleep(time.Minute)
	case "where":
		own, _ := os.ReadFile("/proc/self/cgroup")
		fmt.Printf("procs %d\n%s", runtime.GOMAXPROCS(0), own)
	case "eat":
		n, _ := strconv.Atoi(args[0])
		b := make([]byte, n<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		fmt.Println("ate", len(b))
	case "burn":
		for start := time.Now(); time.Since(start) < time.Second; {
		}
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		fmt.Println("cpu", time.Duration(u.Utime.Nano()+u.Stime.Nano()).Milliseconds())
	case "spin":
		go func() {
			for { //nolint:staticcheck // it is to take all of a core
			}
		}()
		fmt.Println("ready")
		for start := time.Now(); time.Since(start) < time.Minute; {
		}
	case "parent":
		return parent(args[0])
	default:
		return 99
	}
	return 0
}

func startSleeper() int {
	cmd := exec.Command(os.Args[0], "child", "deaf")
	if err := cmd.Start(); err != nil {
		panic(err)
	}
	return cmd.Process.Pid
}

func spec(t *testing.T, mode string, args ...string) process.Spec {
	t.Helper()
	return process.Spec{
		Name: "kid", Path: os.Args[0], Args: append([]string{"child", mode}, args...),
		LogFile: filepath.Join(t.TempDir(), "kid.log"),
	}
}

func start(t *testing.T, s process.Spec) *process.Process {
	t.Helper()
	p := repotest.Must(process.Start(s, nil))(t)
	t.Cleanup(p.Kill)
	return p
}

func logged(t *testing.T, p *process.Process, word string) string {
	t.Helper()
	var text string
	repotest.Eventually(t, "log with "+word, func() bool {
		raw, err := os.ReadFile(p.LogFile())
		text = string(raw)
		return err == nil && strings.Contains(text, word)
	})
	return text
}

// state is the letter of /proc/PID/stat; 0 when there is no such process.
func state(pid int) byte {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return rest[0]
}

func gone(pid int) bool { s := state(pid); return s == 0 || s == 'Z' }

func TestDeathIsSeenAndCarriesTheLastLines(t *testing.T) {
	p := start(t, spec(t, "talk-and-die"))
	<-p.Done()
	var death *process.DeathError
	if !errors.As(p.Err(), &death) {
		t.Fatalf("Err = %v, want a DeathError", p.Err())
	}
	if death.Name != "kid" || death.State != "exit status 3" {
		t.Errorf("death %q %q", death.Name, death.State)
	}
	for _, want := range []string{"kid died (exit status 3)", "line 19", "out of luck", p.LogFile()} {
		if !strings.Contains(p.Err().Error(), want) {
			t.Errorf("error lacks %q: %v", want, p.Err())
		}
	}
	if strings.Contains(p.Err().Error(), "line 3\n") {
		t.Error("error holds the whole log")
	}
	info, err := os.Stat(p.LogFile())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("log file: %v %v, want mode 0600", info.Mode(), err)
	}
}

func TestStartThatFailsNamesTheProcess(t *testing.T) {
	s := spec(t, "sleep")
	s.Path = "/no/such/file"
	if _, err := process.Start(s, nil); err == nil || !strings.Contains(err.Error(), "start kid: ") || !strings.Contains(err.Error(), "/no/such/file") {
		t.Errorf("error %v", err)
	}
	s = spec(t, "sleep")
	s.LogFile = "/no/such/folder/log"
	if _, err := process.Start(s, nil); err == nil || !strings.Contains(err.Error(), "log file") {
		t.Errorf("error %v", err)
	}
}

func TestStopIsNoDeath(t *testing.T) {
	for _, c := range []struct {
		mode    string
		pause   bool
		atLeast time.Duration
	}{{"sleep", false, 0}, {"deaf", false, 300 * time.Millisecond}, {"sleep", true, 0}} {
		t.Run(fmt.Sprint(c.mode, c.pause), func(t *testing.T) {
			p := start(t, spec(t, c.mode))
			logged(t, p, "ready")
			if c.pause {
				repotest.NoError(t, p.Pause())
			}
			begin := time.Now()
			p.Stop(cmp.Or(c.atLeast, 2*time.Minute))
			took := time.Since(begin)
			if took < c.atLeast || took > time.Minute {
				t.Errorf("Stop took %v", took)
			}
			if p.Err() != nil {
				t.Errorf("a stop counts as a death: %v", p.Err())
			}
			p.Stop(time.Hour) // again: nothing to do
			if err := p.Pause(); !errors.Is(err, os.ErrProcessDone) {
				t.Errorf("Pause of a stopped process: %v", err)
			}
		})
	}
}

func TestPauseAndContinue(t *testing.T) {
	p := start(t, spec(t, "sleep"))
	logged(t, p, "ready")
	repotest.NoError(t, p.Pause())
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.PID()))
	for _, thread := range threads { // none runs once Pause has returned
		if raw, _ := os.ReadFile(thread); !bytes.Contains(raw, []byte(") T ")) {
			t.Errorf("%s", raw)
		}
	}
	if len(threads) == 0 {
		t.Error("the process is gone")
	}
	repotest.NoError(t, p.Continue())
	repotest.Eventually(t, "going on", func() bool { return state(p.PID()) == 'S' })
}

func TestProcessHasItsOwnGroupWhichEndsWithIt(t *testing.T) {
	p := start(t, spec(t, "leave-a-child"))
	if pgid, err := syscall.Getpgid(p.PID()); err == nil && pgid != p.PID() {
		t.Errorf("process group %d, want its own %d: Ctrl-C would reach it", pgid, p.PID())
	}
	<-p.Done()
	pid := repotest.Must(strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(logged(t, p, "child"), "child "))))(t)
	repotest.Eventually(t, "the end of the child's child", func() bool { return gone(pid) })
}

// The kernel's parent-death signal comes at the end of the thread that forked.
func TestChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	got := make(chan *process.Process)
	s := spec(t, "sleep")
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		p, err := process.Start(s, nil)
		if err != nil {
			t.Error(err)
		}
		got <- p
	}()
	p := <-got
	defer p.Kill()
	logged(t, p, "ready")
	select {
	case <-p.Done():
		t.Fatalf("the child died with a thread: %v", p.Err())
	case <-time.After(300 * time.Millisecond):
	}
}

func TestInputIsRead(t *testing.T) {
	s := spec(t, "sleep")
	s.Path, s.Args, s.Input = "/bin/cat", nil, []byte("a secret\n")
	p := start(t, s)
	<-p.Done()
	raw, err := os.ReadFile(s.LogFile)
	if err != nil || string(raw) != "a secret\n" {
		t.Errorf("it has read %q, %v", raw, err)
	}
}

func TestEnvironmentIsOnlyWhatIsGiven(t *testing.T) {
	s := spec(t, "sleep")
	s.Path, s.Args = "/usr/bin/env", nil
	s.Env = []string{"GOGC=50"}
	p := start(t, s)
	<-p.Done()
	raw, err := os.ReadFile(s.LogFile)
	if err != nil || string(raw) != "GOGC=50\n" {
		t.Errorf("environment %q, %v", raw, err)
	}
}
