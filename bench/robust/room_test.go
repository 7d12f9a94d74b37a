package robust

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/windtunnel/windtunnel/internal/repotest"
)

// room is a PID namespace with /proc, /dev/shm and a folder for temporary files of its own.
// Its init starts one command after the other and kills nothing, so that whatever lives in
// the room, whoever started it and whatever it is called, is there to be seen from outside.
type room struct {
	t    *testing.T
	dir  string
	init int // host's number of the process
	in   *json.Encoder
	out  *json.Decoder
}

// order is a command for the init of a room, and answer what it says: that the room is there,
// then of each command that it has begun and that it has ended.
type (
	order  struct{ Args []string }
	answer struct {
		PID, Code int
		Err       string
	}
)

const initVariable = "WINDTUNNEL_INIT_OF_A_ROOM"

// newRoom opens a room until the test ends. Commands run in dir.
func newRoom(t *testing.T, dir string) *room {
	t.Helper()
	tmp := filepath.Join(dir, "tmp")
	orders, in, err := os.Pipe()
	if err == nil {
		err = os.Mkdir(tmp, 0o700)
	}
	out, answers, err2 := os.Pipe()
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestInitOfARoom$")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), initVariable+"=1", "TMPDIR="+tmp)
	cmd.ExtraFiles = []*os.File{orders, answers}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID, Unshareflags: syscall.CLONE_NEWNS}
	if me := os.Getuid(); me != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: me, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := cmd.Start(); err != nil {
		t.Skip("no PID namespaces here:", err)
	}
	_, _ = orders.Close(), answers.Close()
	t.Cleanup(func() {
		_ = in.Close() // its init ends, and all that is in the room with it
		_ = cmd.Wait()
		_ = out.Close()
	})
	r := &room{t: t, dir: dir, init: cmd.Process.Pid, in: json.NewEncoder(in), out: json.NewDecoder(out)}
	var a answer
	if err := r.out.Decode(&a); err != nil || a.Err != "" {
		t.Skip("no folders of its own for a PID namespace:", err, a.Err)
	}
	return r
}

// start starts a command and returns its number on the host.
func (r *room) start(args ...string) (pid int) {
	r.t.Helper()
	repotest.NoError(r.t, r.in.Encode(order{args}))
	a := r.answer()
	for pid, p := range r.processes() {
		if p.number == a.PID {
			return pid
		}
	}
	return 0 // it is over already
}

// end waits for the end of the command, and returns its exit code: -1 if it was killed.
func (r *room) end() int {
	r.t.Helper()
	return r.answer().Code
}

func (r *room) answer() (a answer) {
	r.t.Helper()
	if err := r.out.Decode(&a); err != nil || a.Err != "" {
		r.t.Fatal(err, a.Err)
	}
	return a
}

// said is what the command printed.
func (r *room) said() string {
	raw, _ := os.ReadFile(filepath.Join(r.dir, "said"))
	return string(raw)
}

// inmate is a process of a room.
type inmate struct {
	number int // in the room
	args   []string
}

// processes returns the processes of the room, but its init, by their numbers on the host.
func (r *room) processes() map[int]inmate {
	out := map[int]inmate{}
	space, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", r.init))
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		is, err := os.Readlink(dir + "/ns/pid")
		if err != nil || is != space {
			continue
		}
		status, _ := os.ReadFile(dir + "/status")
		_, line, _ := strings.Cut(string(status), "\nNSpid:")
		line, _, _ = strings.Cut(line, "\n")
		numbers := strings.Fields(line)
		raw, _ := os.ReadFile(dir + "/cmdline")
		if args := strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00"); len(numbers) > 0 && numbers[len(numbers)-1] != "1" && len(raw) > 0 { // one that has ended has no words
			out[number(filepath.Base(dir))] = inmate{number(numbers[len(numbers)-1]), args}
		}
	}
	return out
}

func number(text string) (n int) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// left returns all that is in the room: processes, and what lies in its folders for temporary
// files.
func (r *room) left() map[string]bool {
	out := map[string]bool{}
	for pid, p := range r.processes() {
		out[fmt.Sprintf("process %d %s %.60s", pid, begun(fmt.Sprint("/proc/", pid)), strings.Join(p.args, " "))] = true
	}
	for _, dir := range []string{filepath.Join(r.dir, "tmp"), fmt.Sprintf("/proc/%d/root/dev/shm", r.init)} {
		entries := repotest.Must(os.ReadDir(dir))(r.t)
		for _, e := range entries {
			out["file "+filepath.Base(dir)+"/"+e.Name()] = true
		}
	}
	return out
}

// TestInitOfARoom is the first process of a room: it runs only as such.
func TestInitOfARoom(t *testing.T) {
	if os.Getenv(initVariable) == "" {
		t.Skip("the init of other tests")
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	_ = os.Unsetenv(initVariable)
	orders, answers := json.NewDecoder(os.NewFile(3, "orders")), json.NewEncoder(os.NewFile(4, "answers"))
	if err := errors.Join(unix.Mount("proc", "/proc", "proc", 0, ""), unix.Mount("tmpfs", "/dev/shm", "tmpfs", 0, "")); err != nil {
		_ = answers.Encode(answer{Err: err.Error()})
		return
	}
	_ = answers.Encode(answer{})
	for {
		var o order
		if err := orders.Decode(&o); err != nil {
			return
		}
		pid, err := command(o.Args)
		if err != nil {
			_ = answers.Encode(answer{Err: err.Error()})
			continue
		}
		_ = answers.Encode(answer{PID: pid})
		_ = answers.Encode(answer{PID: pid, Code: reap(pid, ended)})
	}
}

// command starts a command without a terminal. What it says is kept in the file said.
func command(args []string) (pid int, err error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	said, err := os.Create("said")
	if err != nil {
		return 0, err
	}
	defer said.Close()
	return syscall.ForkExec(args[0], args, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{null.Fd(), said.Fd(), said.Fd()}})
}

// reap takes note of the children that end, until one does. Others are orphans of the room.
func reap(until int, ended chan os.Signal) (code int) {
	for range ended {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if err != nil || pid == 0 {
				break
			}
			if pid == until {
				return status.ExitStatus()
			}
		}
	}
	return -1
}

// TestRoomShowsWhatIsLeft leaves a process in a session of its own and a file, and sees both.
func TestRoomShowsWhatIsLeft(t *testing.T) {
	r := newRoom(t, t.TempDir())
	if all := r.left(); len(all) > 0 {
		t.Fatalf("an empty room has %v", all)
	}
	r.start("/bin/sh", "-c", "setsid sleep 1000 & echo >$TMPDIR/file; echo >/dev/shm/file; exit 3")
	if code := r.end(); code != 3 {
		t.Errorf("exit code %d\n%s", code, r.said())
	}
	repotest.Eventually(t, "they are seen", func() bool {
		all := r.left()
		return all["file tmp/file"] && all["file shm/file"] && len(all) == 3
	}, func() any { return r.left() })
	for pid := range r.processes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	repotest.Eventually(t, "the process has gone", func() bool { return len(r.left()) == 2 }, func() any { return r.left() })
}
