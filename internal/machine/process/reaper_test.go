package process_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/windtunnel/windtunnel/internal/machine/process"
	"github.com/windtunnel/windtunnel/internal/repotest"
)

// left is what a parent process has made.
type left struct {
	Reaper  int
	PIDs    []int
	Cgroups []string
	Dir     string
}

// parent starts a reaper and children, prints what it made and waits to be killed.
func parent(base string) int {
	k, err := process.StartReaper(os.Args[0], base)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	out := left{Reaper: k.PID(), Dir: k.Dir()}
	for i, mode := range []string{"sleep", "deaf", "hold-a-child"} {
		log := filepath.Join(k.Dir(), mode+".log")
		s := process.Spec{Name: "kid" + strconv.Itoa(i), Path: os.Args[0], Args: []string{"child", mode}, LogFile: log}
		if mode == "deaf" {
			s.Limits = process.Limits{CPU: 1, Memory: 128 << 20}
		}
		p, err := process.Start(s, k)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		out.PIDs = append(out.PIDs, p.PID())
		for _, dir := range p.Cgroups() {
			out.Cgroups = append(out.Cgroups, dir)
		}
		for range 500 {
			if raw, _ := os.ReadFile(log); strings.HasPrefix(string(raw), "child ") && strings.HasSuffix(string(raw), "\n") {
				pid, _ := strconv.Atoi(strings.Fields(string(raw))[1])
				out.PIDs = append(out.PIDs, pid)
				break
			} else if mode != "hold-a-child" {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
	time.Sleep(time.Minute)
	return 0
}

func startParent(t *testing.T, base string) (*exec.Cmd, left) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "child", "parent", base)
	cmd.Stderr = os.Stderr
	pipe := repotest.Must(cmd.StdoutPipe())(t)
	repotest.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(pipe).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the parent said nothing: %v", err)
	}
	var l left
	repotest.NoError(t, json.Unmarshal(line, &l))
	if len(l.PIDs) != 4 {
		t.Fatalf("parent started %d processes, want 4", len(l.PIDs))
	}
	return cmd, l
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

func TestNothingOutlivesAKilledParent(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			cmd, l := startParent(t, t.TempDir())
			repotest.NoError(t, cmd.Process.Signal(sig))
			_ = cmd.Wait()
			for _, pid := range append(l.PIDs, l.Reaper) {
				repotest.Eventually(t, fmt.Sprintf("the end of %d", pid), func() bool { return gone(pid) })
			}
			for _, path := range append(l.Cgroups, l.Dir) {
				if exists(path) {
					t.Errorf("left behind: %s", path)
				}
			}
		})
	}
}

// TestDaemonsDoNotOutliveTheirOwner starts what leaves its session: the end of the reaper ends
// it, and where the reaper was killed, the next start does.
func TestDaemonsDoNotOutliveTheirOwner(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, base string, r *process.Reaper){
		"closed": func(t *testing.T, _ string, r *process.Reaper) {
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		},
		"swept": func(t *testing.T, base string, r *process.Reaper) {
			process.Kill(r)
			if removed, err := process.Sweep(base); err != nil || !slices.Equal(removed, []string{r.Dir()}) {
				t.Errorf("removed %v, %v", removed, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			r := repotest.Must(process.StartReaper(os.Args[0], base))(t)
			c := exec.Command("setsid", "-f", "sh", "-c", "echo $$; exec sleep 600")
			c.Env = append(os.Environ(), r.Mark())
			said, err := c.StdoutPipe()
			if err == nil {
				err = c.Start()
			}
			repotest.NoError(t, err)
			line := repotest.Must(bufio.NewReader(said).ReadString('\n'))(t)
			pid := repotest.Must(strconv.Atoi(strings.TrimSpace(line)))(t)
			_ = c.Wait()
			if gone(pid) {
				t.Fatal("it has ended by itself")
			}
			end(t, base, r)
			repotest.Eventually(t, "the daemon's end", func() bool { return gone(pid) })
		})
	}
}

// The reaper ignores what Ctrl-C and a service manager send to all processes.
func TestReaperOutlivesSignalsUntilItsWorkIsDone(t *testing.T) {
	cmd, l := startParent(t, t.TempDir())
	if pgid, err := syscall.Getpgid(l.Reaper); err != nil || pgid != l.Reaper {
		t.Errorf("the reaper's process group is %d, %v; want its own", pgid, err)
	}
	repotest.Eventually(t, "the reaper ignores signals", func() bool { return ignores(l.Reaper, syscall.SIGHUP) })
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		repotest.NoError(t, syscall.Kill(l.Reaper, s))
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	repotest.Eventually(t, "the folder's removal", func() bool { return !exists(l.Dir) })
}

// ignores says whether a process ignores a signal.
func ignores(pid int, s syscall.Signal) bool {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, after, _ := strings.Cut(string(raw), "SigIgn:\t")
	mask, _, _ := strings.Cut(after, "\n")
	bits, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && bits>>(s-1)&1 == 1
}

func TestSweepRemovesWhatAKilledReaperLeft(t *testing.T) {
	base := t.TempDir()
	other, _ := startParent(t, base) // lives: its folder must stay
	cmd, l := startParent(t, base)
	repotest.NoError(t, syscall.Kill(l.Reaper, syscall.SIGKILL))
	if removed, err := process.Sweep(base); err != nil || len(removed) != 0 {
		t.Fatalf("sweep of live runs removed %v, %v", removed, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for _, pid := range l.PIDs[:3] { // children die with their parent, reaper or not
		repotest.Eventually(t, "the children's end", func() bool { return gone(pid) })
	}
	if !exists(l.Dir) {
		t.Fatal("the folder is gone already: the test shows nothing")
	}
	old, young := filepath.Join(base, ".windtunnel-new-1"), filepath.Join(base, ".windtunnel-new-2")
	for dir, age := range map[string]time.Duration{old: time.Hour, young: 0} {
		repotest.NoError(t, os.Mkdir(dir, 0o700))
		repotest.NoError(t, os.Chtimes(dir, time.Now(), time.Now().Add(-age)))
	}
	removed, err := process.Sweep(base, "/no/such/base")
	if exists(old) || !exists(young) {
		t.Errorf("unborn folders: old one there %v, young one there %v", exists(old), exists(young))
	}
	if err != nil || !slices.Equal(removed, []string{l.Dir}) {
		t.Errorf("sweep removed %v, %v; want %s", removed, err, l.Dir)
	}
	for _, path := range append(l.Cgroups, l.Dir) {
		if exists(path) {
			t.Errorf("left behind: %s", path)
		}
	}
	repotest.Eventually(t, "the grandchild's end", func() bool { return gone(l.PIDs[3]) })
	if other.ProcessState != nil {
		t.Error("the other run was hit")
	}
}

// Temporary folders of others may begin with the tool's name, too.
func TestSweepSparesWhatNoReaperHasMade(t *testing.T) {
	base := t.TempDir()
	ledgers := map[string]string{
		"windtunnel-up-1":   "",
		"windtunnel-run-1":  "", // no ledger
		"windtunnel-run-2":  "nonsense\n",
		"windtunnel-run-3":  `{"dir":"/somewhere/else"}` + "\n",
		"windtunnel123":     "",
		"windtunnel-bench1": `{"dir":"` + filepath.Join(base, "windtunnel-bench1") + `"}` + "\n",
	}
	for name, ledger := range ledgers {
		repotest.NoError(t, os.Mkdir(filepath.Join(base, name), 0o700))
		if ledger == "" {
			continue
		}
		repotest.NoError(t, os.WriteFile(filepath.Join(base, name, "ledger"), []byte(ledger), 0o600))
	}
	removed, err := process.Sweep(base)
	if err != nil || len(removed) != 0 {
		t.Errorf("removed %v, %v", removed, err)
	}
	for name := range ledgers {
		if !exists(filepath.Join(base, name)) {
			t.Errorf("%s is gone", name)
		}
	}
}

func TestCloseOfAReaperLeavesNothing(t *testing.T) {
	base := t.TempDir()
	k := repotest.Must(process.StartReaper(os.Args[0], base))(t)
	if info, err := os.Stat(k.Dir()); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder %v, %v; want mode 0700", info, err)
	}
	s := spec(t, "sleep")
	p := repotest.Must(process.Start(s, k))(t)
	p.Stop(time.Second)
	for range 2 {
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
	if !gone(k.PID()) {
		t.Error("the reaper runs on")
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

func TestStartReaperThatFailsLeavesNothing(t *testing.T) {
	base := t.TempDir()
	if _, err := process.StartReaper("/no/such/file", base); err == nil {
		t.Error("no error")
	}
	if entries, err := os.ReadDir(base); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// A folder of a verb that was killed is removed by the next start, and stays for as
// long as the verb lives.
func TestSweepRemovesFoldersOfTheKilled(t *testing.T) {
	base := t.TempDir()
	for _, prefix := range []string{process.UpPrefix, process.HollowPrefix} {
		f, err := process.NewFolder(base, prefix)
		repotest.NoError(t, err)
		repotest.NoError(t, os.WriteFile(filepath.Join(f.Dir(), "kubeconfig"), []byte("secret"), 0o600))
		if removed, err := process.Sweep(base); err != nil || len(removed) != 0 || !exists(f.Dir()) {
			t.Errorf("sweep of a folder in use removed %v, %v", removed, err)
		}
		f.Unlock() // as the kernel does for one that is killed
		if removed, err := process.Sweep(base); err != nil || !slices.Equal(removed, []string{f.Dir()}) || exists(f.Dir()) {
			t.Errorf("sweep removed %v, %v; want %s", removed, err, f.Dir())
		}
		if f, err = process.NewFolder(base, prefix); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil || exists(f.Dir()) {
			t.Errorf("closed: %v, there: %v", err, exists(f.Dir()))
		}
	}
}
