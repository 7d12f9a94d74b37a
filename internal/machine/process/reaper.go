package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/windtunnel/windtunnel/internal/kernel"
)

// ReaperArg is the hidden first argument with which an executable runs
// ReaperMain on its standard input.
const ReaperArg = "reaper"

const (
	ledgerFile  = "ledger"
	cleanWithin = 5 * time.Second
)

// entry is one thing that must not outlive windtunnel, a line of JSON.
type entry struct {
	PID    int    `json:"pid,omitempty"`
	Start  uint64 `json:"start,omitempty"`
	Boot   string `json:"boot,omitempty"` // that Start counts from; empty in ledgers of earlier versions
	Cgroup string `json:"cgroup,omitempty"`
	Dir    string `json:"dir,omitempty"`
	Mark   string `json:"mark,omitempty"` // of the environment of what must not outlive it
}

// Reaper owns the private folder of a run and what must not outlive the run:
// processes, control groups and the folder itself.
//
// It is a child process in an own session that holds the end of a pipe. When
// windtunnel ends, in whatever way, the pipe closes and the child removes what
// is left. Should the child be killed as well, the next run does (Sweep): all
// that the child is told also stands in a ledger in the folder, and the folder
// is locked for as long as windtunnel lives.
type Reaper struct {
	dir  string
	lock *os.File
	cmd  *exec.Cmd

	mu     sync.Mutex
	pipe   io.WriteCloser // nil once closed
	ledger *os.File
}

// StartReaper makes a private folder in base, which must be a local file
// system, and starts executable with ReaperArg to look after it.
func StartReaper(executable, base string) (*Reaper, error) {
	dir, lock, err := lockedFolder(base, namePrefix)
	if err != nil {
		return nil, err
	}
	r := &Reaper{dir: dir, lock: lock}
	if err := r.startReaper(executable); err != nil {
		return nil, errors.Join(fmt.Errorf("start reaper: %w", err), os.RemoveAll(dir), lock.Close())
	}
	return r, nil
}

func (r *Reaper) startReaper(executable string) error {
	ledger, err := os.OpenFile(filepath.Join(r.dir, ledgerFile), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	r.ledger = ledger
	r.cmd = &exec.Cmd{
		Path: executable, Args: []string{executable, ReaperArg}, Dir: "/",
		Env:         []string{"GOGC=off", "GOMEMLIMIT=64MiB"}, // it allocates next to nothing
		SysProcAttr: kernel.OwnSession(),
	}
	if r.pipe, err = r.cmd.StdinPipe(); err != nil {
		return errors.Join(err, ledger.Close())
	}
	r.recordEntry(entry{Dir: r.dir}) // waits in the pipe: no moment without it
	if err := r.cmd.Start(); err != nil {
		return errors.Join(err, ledger.Close(), r.pipe.Close())
	}
	return nil
}

// Dir returns the run's private folder, mode 0700.
func (r *Reaper) Dir() string { return r.dir }

// Process tells the reaper to look after a process that leads a group of its own,
// and cgroup after a control group; a nil Reaper ignores it.
func (r *Reaper) Process(pid int) {
	if s, err := statOf(pid); err == nil {
		r.recordEntry(entry{PID: pid, Start: s.start, Boot: bootID()})
	}
}

func (r *Reaper) recordCgroup(dir string) { r.recordEntry(entry{Cgroup: dir}) }

// recordEntry writes to pipe and ledger. One of them is enough, and without both the
// kernel still kills the children with windtunnel, so faults are no reason to
// stop a run.
func (r *Reaper) recordEntry(e entry) {
	if r == nil {
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		return // an entry always encodes
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipe != nil {
		_, _ = r.pipe.Write(append(line, '\n'))
		_, _ = r.ledger.Write(append(line, '\n'))
	}
}

// Close removes the folder, ends the reaper's process and waits for it. What
// the caller has not ended before, the reaper ends now. It is idempotent.
func (r *Reaper) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pipe == nil {
		return nil
	}
	err := errors.Join(removeFolder(r.dir), r.pipe.Close())
	r.pipe = nil
	_ = r.cmd.Wait() // killed or not: the folder is gone, or err says so
	return errors.Join(err, r.ledger.Close(), r.lock.Close())
}

// ReaperMain is the reaper's process: it reads what to look after until the
// pipe closes, removes what is left of it, and returns the exit code.
func ReaperMain(stdin io.Reader) int {
	// Whoever ends windtunnel by a signal to all of its processes wants it
	// cleaned up after, too.
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := cleanEntries(readEntries(stdin)); err != nil {
		return 1
	}
	return 0
}

// readEntries reads to the end; a line cut off is no entry.
func readEntries(in io.Reader) []entry {
	var out []entry
	buffered := bufio.NewReader(in)
	for {
		line, err := buffered.ReadBytes('\n')
		if err != nil {
			return out
		}
		var e entry
		if json.Unmarshal(bytes.TrimSpace(line), &e) == nil {
			out = append(out, e)
		}
	}
}
